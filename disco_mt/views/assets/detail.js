/* What the word that is pointed at is, and what it saw; and the legend of all marks. */
import { append, element, foreign } from "./dom.js";

export class Detail {
  constructor() {
    this.root = element("p", "detail");
    this.root.setAttribute("aria-hidden", "true");      // the words themselves carry the same text as their label
    this.say = this.say.bind(this);
  }

  say(word, text) {
    this.root.classList.toggle("shown", Boolean(text));
    if (text) this.root.replaceChildren(foreign("strong", "", word), foreign("span", "", text));
  }
}

export function buildLegend() {
  const legend = element("ul", "legend");
  legend.setAttribute("aria-label", "legend");
  const sample = (className, note) => append(element("li"), element("span", `word ${className}`, "word"), note);
  return append(legend,
    append(element("li"), "unsure", element("span", "scale"), "sure"),
    sample("changed", "changed in this pass"),
    sample("kept", "kept, not predicted again"),
    sample("observed", "seen by the word you point at"),
    sample("pinned", "pinned"),
    append(element("li"), element("span", "best", "★"), "best length so far"));
}
