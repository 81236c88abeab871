/* Every sentence with its passes: a card a sentence, a panel a strategy, one slider for all. */
import { Controls } from "../view/controls.js";
import { Detail, buildLegend } from "../view/detail.js";
import { append, element, foreign } from "../view/dom.js";
import { Panel } from "../view/panel.js";
import { Stage } from "../view/stage.js";

const OPEN = 3;             // so many sentences are unfolded; those of a long text unfold on a click

export class Story {
  /* `choose(sentence, panel, word, node)`: a word was clicked. */
  constructor(translation, sentences, choose) {
    Object.assign(this, { translation, sentences, choose, cards: [], previews: [], detail: new Detail() });
    this.controls = new Controls((t) => this.panels().forEach((panel) => panel.show(t)));
    this.legend = buildLegend();
    addEventListener("resize", () => this.align());
  }

  panels() { return this.cards.flatMap((card) => card.panels); }

  /* `results`: a translation a strategy, of the same sentences. The first is what is read in large type. */
  show(results) {
    const before = this.cards;
    this.detail.say("", "");                              // the word that it was about goes
    this.cards = results[0].sentences.map((sentence, index) => this.buildCard(results, index, before[index]));
    this.restore();
    this.translation.dir = this.cards[0]?.panels[0].trace.direction ?? "auto";
    this.sentences.replaceChildren(...this.cards.map((card) => card.root));
    this.sentences.classList.toggle("compared", results.length > 1);
    this.controls.reset(Math.max(0, ...this.panels().map((panel) => panel.trace.passes.length)));
    this.align();
  }

  /* A pass as it happens: only the large type follows, and cannot be clicked yet. */
  preview({ sentence, candidates, winner }) {
    const place = this.translation.children[sentence];
    const stage = this.previews[sentence] ??= new Stage("auto", { pick() {}, unpick() {} });
    if (!stage.root.isConnected) {
      stage.words = this.cards[sentence]?.stage.words ?? [];
      if (place) place.replaceWith(stage.root);
      else this.translation.append(stage.root, " ");
    }
    stage.show([candidates[winner]], 0);
  }

  /* What was there before the passes came in, or what came of them. */
  restore() {
    this.previews = [];
    this.translation.replaceChildren(...this.cards.flatMap((card) => [card.stage.root, " "]));
  }

  buildCard(results, index, before) {
    const parts = results.map((result) => result.sentences[index]);
    const panels = parts.map((part) => new Panel(part.trace, {
      detail: this.detail.say,
      go: (t) => this.controls.go(t),
      choose: (panel, word, node) => this.choose(index, panel, word, node),
    }));
    const stage = panels[0].addStage();
    stage.words = (this.previews[index] ?? before?.stage)?.words ?? [];     // what has changed since then is seen to arrive
    const grid = append(element("div", "panels"), ...panels.map((panel) => panel.root));
    const count = results[0].sentences.length;
    return { source: parts[0].source, panels, stage, root: count > 1 ? this.folded(parts[0], grid, index, count, before) : grid };
  }

  folded(part, grid, index, count, before) {
    const root = element("details", "sentence");
    root.open = before?.root.open ?? (count <= OPEN || index === 0);
    const summary = append(element("summary"), element("span", "count", String(index + 1)), foreign("span", "", part.source));
    root.addEventListener("toggle", () => this.align());
    return append(root, summary, grid);
  }

  align() { this.panels().forEach((panel) => panel.align()); }
}
