/* The server: POST v1/translate and GET v1/models. Errors come back as something a reader can use. */

export class Trouble extends Error {
  /* `again`: seconds after which to try again by itself; `kind`: "key", "pin", "text" or "". */
  constructor(message, { again = null, kind = "" } = {}) {
    super(message);
    this.again = again;
    this.kind = kind;
  }
}

let key = "";
export function useKey(given) { key = given; }

export async function listModels(signal) {
  return (await call("v1/models", undefined, signal)).models;
}

/* One text with one strategy -> its sentences, each with the trace that the view shows. */
export async function translate(state, strategy, pins, signal) {
  const started = performance.now();
  const body = {
    text: state.text, strategy, iterations: state.iterations, length_beam: state.lengthBeam, trace: true,
    pinned: pins.map(({ text, at, sentence }) => ({ text, at, sentence })),
    ...(state.model ? { model: state.model } : {}),
  };
  const answer = await call("v1/translate", body, signal);
  return { ...answer.translations[0], roundTrip: performance.now() - started };
}

async function call(path, body, signal) {
  const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, { ...options, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("The server cannot be reached. Your text is still here.", { again: 5 });
  }
  if (answer.ok) return answer.json();
  throw trouble(answer, await answer.json().catch(() => ({})));
}

function trouble(answer, said) {
  const wait = Number(answer.headers.get("Retry-After")) || 2;
  switch (answer.status) {
    case 401: case 403: return new Trouble("This server asks for a key.", { kind: "key" });
    case 413: return new Trouble("This text is too long for the server. A few paragraphs at a time work well.", { kind: "text" });
    case 422: case 400: return new Trouble(reason(said), { kind: "pin" });
    case 429: return new Trouble("Many people are translating right now.", { again: wait });
    case 503: return new Trouble("The server is starting or restarting.", { again: wait });
    case 504: return new Trouble("This took longer than the server allows. A shorter text or fewer passes may help.");
    default: return new Trouble("Something went wrong on the server. It has been noted there.");
  }
}

function reason(said) {
  const detail = said.error?.message ?? said.error ?? said.detail;
  if (typeof detail === "string") return detail;
  return Array.isArray(detail) && detail[0]?.msg ? detail[0].msg : "The server did not understand this.";
}
