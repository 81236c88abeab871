/* The lengths that were tried, each with its score after the pass that is shown. */
import { append, button, element, percent, plural, signed } from "./dom.js";

export class Candidates {
  constructor(trace, choose) {
    this.trace = trace;
    this.root = element("fieldset", "candidates");
    this.root.setAttribute("role", "radiogroup");
    append(this.root, element("legend", "", "Lengths tried"));
    this.chips = trace.lengths.map((length, k) => this.build(length, k, choose));
    append(this.root, ...this.chips);
  }

  build(length, k, choose) {
    const chip = button("candidate", undefined, "", () => choose(k));
    chip.setAttribute("role", "radio");
    chip.style.setProperty("--p", Math.exp(this.trace.lengthLogProbabilities[k]));
    append(chip, element("span", "best", "★"), element("b", "", String(length)), element("span", "score"));
    chip.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      const next = (k + step + this.chips.length) % this.chips.length;
      choose(next);
      this.chips[next].focus();
    });
    return chip;
  }

  show(t, chosen) {
    this.chips.forEach((chip, k) => {
      const leads = this.trace.winners[t] === k;
      const score = t < 0 ? "" : signed(this.trace.passes[t][k].score);
      const likely = percent(Math.exp(this.trace.lengthLogProbabilities[k]));
      chip.classList.toggle("leads", leads);
      chip.setAttribute("aria-checked", String(k === chosen));
      chip.tabIndex = k === chosen ? 0 : -1;
      const length = t < 0 ? this.trace.lengths[k] : this.trace.passes[t][k].words.length;
      chip.querySelector("b").textContent = length;       // decoders that insert and delete change it
      chip.querySelector(".score").textContent = score;
      chip.title = `${plural(length, "token")}: probability of the length ${likely}, ` +
        `score ${score}: log probability of the words, divided by their number to the power of the length penalty${leads ? ", the best in this pass" : ""}`;
      chip.setAttribute("aria-label", chip.title);
    });
  }
}
