/* One strategy: its facts, its length candidates, a row of words for every pass. */
import { Candidates } from "./candidates.js";
import { append, button, element, foreign, plural } from "./dom.js";
import { context, describe, isChanged, isPinned, shown, wordsOf } from "./passes.js";
import { firstStop, walk } from "./roving.js";
import { Stage } from "./stage.js";

export class Panel {
  /* `actions`: detail(word, text) to say what is pointed at, go(t) to a pass, choose(panel, word, node), if any. */
  constructor(trace, actions) {
    this.trace = trace;
    this.actions = actions;
    this.candidate = trace.winners.at(-1) ?? 0;
    this.current = trace.passes.length - 1;
    this.stages = [];
    this.list = element("ol", "passes");
    this.list.setAttribute("aria-label", "passes");
    this.candidates = new Candidates(trace, (k) => this.choose(k));
    this.root = this.build();
    this.buildPasses();
  }

  build() {
    const heading = append(element("header"), element("h3", "", this.trace.strategy), element("span", "facts", facts(this.trace)));
    const root = append(element("article", "panel"), heading, this.addStage().root);
    if (this.trace.lengths.length) append(root, this.candidates.root);
    return append(root, this.list);
  }

  /* The translation in large type, here or anywhere else on the page. */
  addStage() {
    const stage = new Stage(this.trace.direction, {
      pick: (start, end) => this.pick(this.current, start, end),
      unpick: () => this.unpick(),
      choose: this.actions.choose && ((word, node) => this.actions.choose(this, word, node)),
    });
    this.stages.push(stage);
    return stage;
  }

  passes() { return this.trace.passes.map((candidates) => candidates[this.candidate]); }

  choose(k) {
    this.candidate = k;
    this.buildPasses();
    this.show(this.current);
  }

  buildPasses() {
    const passes = this.passes();
    this.unpick();
    this.rows = passes.map((pass, t) => wordsOf(pass).flatMap(({ start, end }) =>
      pass.words.slice(start, end).map((_, n) => this.buildToken(passes, t, start + n, n > 0))));
    this.items = passes.map((pass, t) => {
      const number = button("number", String(t + 1), `go to pass ${t + 1}`, () => this.actions.go(t));
      const words = element("div", "words");
      words.dir = this.trace.direction;
      words.setAttribute("role", "group");
      words.setAttribute("aria-label", `pass ${t + 1}: ${pass.words.join(" ")}`);
      return append(element("li", "pass"), number, append(words, ...this.rows[t]));
    });
    this.list.replaceChildren(...this.items);
    firstStop(this.rows.flat());
    if (this.root.isConnected) this.align();
  }

  buildToken(passes, t, n, continues) {
    const pass = passes[t];
    const word = button("word", undefined, `${shown(pass, n)}, ${describe(passes, t, n, n + 1)}`);
    word.style.setProperty("--p", pass.probabilities[n]);
    word.classList.toggle("changed", isChanged(passes, t, n));
    word.classList.toggle("kept", !pass.predicted[n] && !isPinned(pass, n));
    word.classList.toggle("pinned", isPinned(pass, n));
    word.classList.toggle("continues", continues);
    append(word, foreign("span", "", shown(pass, n)));
    word.addEventListener("pointerenter", () => this.pick(t, n, n + 1));
    word.addEventListener("pointerleave", () => this.unpick());
    word.addEventListener("focus", () => this.pick(t, n, n + 1));
    word.addEventListener("blur", () => this.unpick());
    word.addEventListener("keydown", (event) => walk(event, t, n, (row, column) => this.rows[row]?.[column]));
    if (this.actions.choose) word.addEventListener("click", () => this.actions.choose(this, wordAt(pass, n), word));
    return word;
  }

  /* A word read the words of the pass before: they light up there, all others step back. */
  pick(t, start, end) {
    this.unpick();
    const passes = this.passes();
    const { made, seen } = context(passes, t, start, end);
    const text = passes[t].words.slice(start, end).join("") || shown(passes[t], start);
    this.actions.detail(text, ` in pass ${t + 1} · ${describe(passes, t, start, end)}`);
    if (isPinned(passes[t], start)) return;              // it was given: it read nothing
    this.list.classList.add("picking");
    for (let n = start; n < end; n += 1) this.rows[t][n].classList.add("picked");
    for (const m of seen) this.rows[Math.max(0, made - 1)][m]?.classList.add("observed");
    if (t === this.current) this.stages.forEach((stage) => stage.pick(passes, t, start, end));
  }

  unpick() {
    this.stages.forEach((stage) => stage.unpick());
    this.list.classList.remove("picking");
    for (const node of this.list.querySelectorAll(".picked, .observed")) node.classList.remove("picked", "observed");
    this.actions.detail("", "");
  }

  /* Everything as it was after pass t; a strategy that stopped earlier stays at its end. */
  show(t) {
    const passes = this.passes();
    this.current = Math.min(t, passes.length - 1);
    this.items.forEach((item, index) => {
      item.classList.toggle("later", index > this.current);
      if (index === this.current) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
    this.candidates.show(this.current, this.candidate);
    if (passes.length) this.stages.forEach((stage) => stage.show(passes, this.current));
  }

  /* Every position gets the width of its widest word, so that the passes stay aligned even when they wrap;
     not where words are inserted or deleted, and positions move. */
  align() {
    for (const word of this.rows.flat()) word.style.minWidth = "";
    if (this.rows.some((row) => row.length !== this.rows[0].length)) return;
    const wide = (n) => Math.max(...this.rows.map((row) => row[n].getBoundingClientRect().width));
    const widths = this.rows.length ? this.rows[0].map((_, n) => Math.ceil(wide(n))) : [];
    for (const row of this.rows) row.forEach((word, n) => { word.style.minWidth = `${widths[n]}px`; });
  }
}

function wordAt(pass, n) {
  return wordsOf(pass).find((word) => word.start <= n && n < word.end);
}

function facts(trace) {
  return plural(trace.steps, "step") + (trace.milliseconds === null ? "" : ` · ${Math.round(trace.milliseconds)} ms`);
}
