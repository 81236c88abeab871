/* The translation in large type, as it stands after a pass: underlined by how sure each word is. */
import { element, foreign } from "./dom.js";
import { context, describe, isChanged, shown, wordsOf } from "./passes.js";
import { firstStop, walk } from "./roving.js";

export class Stage {
  /* `actions`: pick(start, end) and unpick() while a word is pointed at; choose(word, node) on a click, if any. */
  constructor(direction, actions) {
    this.actions = actions;
    this.root = element("div", "stage");
    this.root.dir = direction;
    this.nodes = [];
    this.words = [];
  }

  show(passes, t) {
    const focused = this.words[this.nodes.indexOf(document.activeElement)];
    const before = new Map(this.words.map((word) => [word.start, word.text]));
    this.words = wordsOf(passes[t]);
    this.nodes = this.words.map((word, place) => this.build(passes, t, word, place));
    this.words.forEach((word, place) => {
      const fresh = before.size > 0 && before.get(word.start) !== word.text;
      this.nodes[place].classList.toggle("fresh", fresh);
    });
    this.root.replaceChildren(...this.nodes.flatMap((node, place) => (this.words[place].space ? [" ", node] : [node])));
    firstStop(this.nodes);
    if (focused) this.focus(focused.start);
  }

  build(passes, t, word, place) {
    // no <button>: it would not wrap, nor could it be selected
    const node = foreign("span", "spoken", word.text || shown(passes[t], word.start));
    node.setAttribute("role", "button");
    node.style.setProperty("--p", word.probability);
    node.classList.toggle("pinned", word.pinned);
    node.classList.toggle("changed", span(word).some((n) => isChanged(passes, t, n)));
    node.setAttribute("aria-label", `${word.text}, ${describe(passes, t, word.start, word.end)}`);
    node.addEventListener("pointerenter", () => this.actions.pick(word.start, word.end));
    node.addEventListener("pointerleave", () => this.actions.unpick());
    node.addEventListener("focus", () => this.actions.pick(word.start, word.end));
    node.addEventListener("blur", () => this.actions.unpick());
    node.addEventListener("keydown", (event) => walk(event, 0, place, (row, n) => row === 0 && this.nodes[n]));
    if (this.actions.choose) this.makeClickable(node, word);
    return node;
  }

  makeClickable(node, word) {
    node.setAttribute("aria-haspopup", "dialog");
    node.addEventListener("click", () => { if (getSelection().isCollapsed) this.actions.choose(word, node); });
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.actions.choose(word, node);
    });
  }

  /* Light up a word and what it saw. */
  pick(passes, t, start, end) {
    const { seen } = context(passes, t, start, end);
    this.root.classList.add("picking");
    this.words.forEach((word, place) => {
      const own = word.start < end && word.end > start;
      this.nodes[place].classList.toggle("picked", own);
      this.nodes[place].classList.toggle("observed", !own && span(word).some((n) => seen.includes(n)));
    });
  }

  unpick() {
    this.root.classList.remove("picking");
    for (const node of this.nodes) node.classList.remove("picked", "observed");
  }

  /* The word at a token: after a new translation the keyboard stays where it was. */
  focus(start) {
    const place = Math.max(0, this.words.findLastIndex((word) => word.start <= start));
    const node = this.nodes[place];
    if (!node) return;
    this.nodes.forEach((other) => { other.tabIndex = other === node ? 0 : -1; });
    node.focus({ preventScroll: true });
  }
}

function span(word) {
  return Array.from({ length: word.end - word.start }, (_, n) => word.start + n);
}
