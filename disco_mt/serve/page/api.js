/* The server: POST v1/translate and GET v1/models. Errors come back as something a reader can use. */

export class Trouble extends Error {
  /* `again`: seconds after which to try again by itself; `kind`: "key", "long" or "". */
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

/* One text with one strategy -> {text, milliseconds, sentences: [{source, trace}]}; `watch` is told every pass. */
export async function translate(state, strategy, pins, signal, watch) {
  const body = {
    text: state.text, strategy, iterations: state.iterations, length_beam: state.lengthBeam,
    pinned: pins.map(({ text, at, sentence }) => ({ text, at, sentence })),
    ...(state.model ? { model: state.model } : {}),
  };
  const watched = { ...body, trace: true, stream: true };
  const answer = await send("v1/translate", watched, signal).then((streamed) => last(streamed, watch), (error) => {
    if (error.kind !== "long") throw error;
    return call("v1/translate", body, signal);            // more text is taken where no passes are wanted
  });
  const { text, sentences } = answer.translations[0];
  const { milliseconds } = answer;                       // of all sentences together
  return { text, milliseconds, sentences: sentences.map((sentence) => ({
    source: sentence.source,
    watched: Boolean(sentence.trace),
    trace: {
      ...(sentence.trace ?? unwatched(sentence, answer.strategy)),
      milliseconds: sentences.length > 1 ? null : milliseconds,
    },
  })) };
}

/* A translation whose passes are not known, as a trace of one pass. */
function unwatched({ text, steps, pieces, probabilities, pinned, score }, strategy) {
  if (text.includes("\ufffd") !== pieces.join("").includes("\ufffd")) {   // parts of characters: one word is all
    return unwatched({ text, steps, pieces: [text], probabilities: [Math.exp(score)], pinned: [], score }, strategy);
  }
  const pass = {
    words: pieces.map((piece) => piece.trim() || "␣"), spaces: pieces.map((piece) => piece.startsWith(" ")),
    probabilities, observed: null, predicted: pieces.map(() => true), changed: [], pinned, score,
  };
  return { strategy, text, direction: "auto", steps, lengths: [], lengthLogProbabilities: [], winners: [0], passes: [[pass]] };
}

/* Server-sent events: passes as they happen, then the result. */
async function last(streamed, watch) {
  for await (const [event, data] of events(streamed.body.pipeThrough(new TextDecoderStream()).getReader())) {
    if (event === "pass") watch(data);
    else if (event === "result") return data;
    else throw new Trouble(capital(data.error));
  }
  throw new Trouble("The server ended in the middle of the answer.", { again: 3 });
}

async function* events(reader) {
  const next = () => reader.read().catch(lost);
  let rest = "";
  for (let part = await next(); !part.done; part = await next()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(block);
      yield [event, JSON.parse(data)];
    }
  }
}

async function call(path, body, signal) { return (await send(path, body, signal)).json(); }

async function send(path, body, signal) {
  const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(path, { ...options, signal, cache: "no-store", credentials: "omit" }).catch(lost);
  if (answer.ok) return answer;
  throw trouble(answer, await answer.json().catch(() => ({})));
}

function lost(error) {
  if (error.name === "AbortError") throw error;           // by ourselves: a newer request has taken its place
  throw new Trouble("The server cannot be reached. Your text is still here.", { again: 5 });
}

function trouble(answer, said) {
  const wait = Number(answer.headers.get("Retry-After")) || 2;
  switch (answer.status) {
    case 401: return new Trouble("This server asks for a key.", { kind: "key" });
    case 413: return new Trouble("This text is too long for the server. A few pages at a time work well.", { kind: "long" });
    case 400: case 422: return new Trouble(capital(said.error ?? "the server did not understand this"));
    case 429: return new Trouble("Many people are translating right now.", { again: wait });
    case 503: return new Trouble("The server is starting or restarting.", { again: wait });
    case 504: return new Trouble("This took longer than the server allows. A shorter text or fewer passes may help.");
    default: return new Trouble("Something went wrong on the server. It has been noted there.");
  }
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + ".";
}
