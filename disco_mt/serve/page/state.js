/* What a shared link holds. It lies behind the #, so that it reaches no server and no log. */

export const DEFAULTS = { text: "", model: "", strategy: "easy-first", iterations: 10, lengthBeam: 5, pins: [] };
const STRATEGIES = ["easy-first", "mask-predict", "both"];

export function toFragment(state) {
  const fields = new URLSearchParams();
  if (state.text) fields.set("text", state.text);
  for (const name of ["model", "strategy", "iterations", "lengthBeam"]) {
    if (String(state[name]) !== String(DEFAULTS[name])) fields.set(name, state[name]);
  }
  for (const pin of state.pins) fields.append("pin", `${pin.sentence},${pin.at ?? ""},${pin.text}`);
  return fields.toString();
}

/* Anything may stand in a link: what does not fit is left out. */
export function fromFragment(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const strategy = fields.get("strategy");
  return {
    text: fields.get("text") ?? "",
    model: fields.get("model") ?? "",
    strategy: STRATEGIES.includes(strategy) ? strategy : DEFAULTS.strategy,
    iterations: whole(fields.get("iterations"), 1, 20, DEFAULTS.iterations),
    lengthBeam: whole(fields.get("lengthBeam"), 1, 10, DEFAULTS.lengthBeam),
    pins: fields.getAll("pin").map(toPin).filter(Boolean),
  };
}

function toPin(value) {
  const parts = /^(\d{1,4}),(\d{0,4}),([^]+)$/.exec(value);
  return parts && { sentence: Number(parts[1]), at: parts[2] === "" ? null : Number(parts[2]), text: parts[3], of: null };
}

export function whole(value, least, most, otherwise) {
  const number = Number.parseInt(value ?? "", 10);
  return Number.isNaN(number) ? otherwise : Math.max(least, Math.min(most, number));
}
