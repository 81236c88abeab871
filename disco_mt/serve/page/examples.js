/* Sentences to begin with, by source language. */
export const EXAMPLES = {
  en: [
    "I wanted to visit my old friends last weekend.",
    "She opened the window because it was very warm in the room.",
    "We were tired. The train was late, so we drank coffee and talked about our plans. Nobody wanted to go home.",
  ],
  de: [
    "Ich wollte letztes Wochenende meine alten Freunde besuchen.",
    "Sie öffnete das Fenster, weil es im Zimmer sehr warm war.",
  ],
};
