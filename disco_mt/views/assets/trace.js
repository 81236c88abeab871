"use strict";
/* Shows a trace (see disco_mt/views/view.py: to_data). Text reaches the page by textContent only. */
const DiscoTrace = (() => {
  const PLAY_MILLISECONDS = 1100;

  function element(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function foreign(tag, className, text) {           // text of the user's languages: its own direction
    const node = element(tag, className, text);
    node.dir = "auto";
    return node;
  }

  function append(parent, ...children) {
    parent.append(...children);
    return parent;
  }

  const percent = (p) => `${Math.round(100 * p)} %`;
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  /* The pass that predicted word n as it stands in pass t (mask-predict keeps words from earlier passes). */
  function origin(passes, t, n) {
    while (t > 0 && !passes[t].predicted[n]) t -= 1;
    return t;
  }

  function describe(passes, t, n) {
    const made = origin(passes, t, n);
    const pass = passes[made];
    const seen = pass.observed[n].map((m) => (made > 0 ? passes[made - 1].words[m] : ""));
    const changed = t > 0 && passes[t - 1].words[n] !== passes[t].words[n];
    const context = seen.length
      ? `saw ${seen.length} of ${passes[t].words.length - 1} other words: ${seen.join(" ")}`
      : "saw no other word, only the source and the length";
    return { changed, made, text: `${percent(passes[t].probabilities[n])}${changed ? `, was “${passes[t - 1].words[n]}”` : ""}` +
      `${made < t ? `, kept from pass ${made + 1}` : ""} · ${context}` };
  }

  class Panel {
    constructor(trace, number, detail) {
      this.trace = trace;
      this.detail = detail;
      this.candidate = trace.winners.length ? trace.winners[trace.winners.length - 1] : 0;
      this.current = 0;
      this.root = element("section", "panel");
      const title = element("h2", "", trace.strategy);
      title.id = `disco-strategy-${number}`;
      this.root.setAttribute("aria-labelledby", title.id);
      const time = trace.milliseconds === null ? "" : ` · ${Math.round(trace.milliseconds)} ms`;
      append(this.root, append(element("header"), title,
        element("span", "facts", plural(trace.steps, "step") + time)), foreign("p", "result", trace.text));
      this.chips = this.buildCandidates();
      this.list = element("ol", "passes");
      this.list.setAttribute("aria-label", "passes");
      append(this.root, this.list);
      this.buildPasses();
    }

    passes() { return this.trace.passes.map((candidates) => candidates[this.candidate]); }

    buildCandidates() {
      const { lengths, lengthLogProbabilities } = this.trace;
      const group = element("fieldset", "candidates");
      group.setAttribute("role", "radiogroup");
      append(group, element("legend", "", "Length candidates"));
      const chips = lengths.map((length, k) => {
        const chip = element("button", "candidate");
        chip.type = "button";
        chip.setAttribute("role", "radio");
        chip.title = `length ${length}: probability ${percent(Math.exp(lengthLogProbabilities[k]))}`;
        append(chip, element("span", "best", "★ "), `${plural(length, "word")} `, element("span", "score"));
        chip.addEventListener("click", () => this.choose(k));
        chip.addEventListener("keydown", (event) => {
          const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          event.stopPropagation();
          this.choose((k + step + lengths.length) % lengths.length);
          this.chips[this.candidate].focus();
        });
        append(group, chip);
        return chip;
      });
      if (lengths.length) append(this.root, group);
      return chips;
    }

    choose(k) {
      this.candidate = k;
      this.buildPasses();
      this.show(this.current);
    }

    buildPasses() {
      const passes = this.passes();
      this.unpick();
      this.rows = passes.map((pass, t) => pass.words.map((word, n) => this.buildWord(passes, t, n)));
      this.items = passes.map((pass, t) => {
        const number = element("button", "number", String(t + 1));
        number.type = "button";
        number.setAttribute("aria-label", `go to pass ${t + 1}`);
        number.addEventListener("click", () => this.root.dispatchEvent(
          new CustomEvent("pass", { bubbles: true, detail: t })));
        const words = element("div", "words");
        words.dir = this.trace.direction;
        words.setAttribute("role", "group");
        words.setAttribute("aria-label", `pass ${t + 1}: ${pass.words.join(" ")}`);
        return append(element("li", "pass"), number, append(words, ...this.rows[t]));
      });
      this.list.replaceChildren(...this.items);
      if (this.rows.length && this.rows[0].length) this.rows[0][0].tabIndex = 0;
      if (this.root.isConnected) this.align();
    }

    buildWord(passes, t, n) {
      const pass = passes[t];
      const about = describe(passes, t, n);
      const word = element("button", "word");
      word.type = "button";
      word.tabIndex = -1;
      word.style.setProperty("--p", pass.probabilities[n]);
      word.classList.toggle("changed", about.changed);
      word.classList.toggle("kept", !pass.predicted[n]);
      word.setAttribute("aria-label", `${pass.words[n]}, ${about.text}`);
      append(word, foreign("span", "text", pass.words[n]));
      word.addEventListener("pointerenter", () => this.pick(t, n));
      word.addEventListener("pointerleave", () => this.unpick());
      word.addEventListener("focus", () => this.pick(t, n));
      word.addEventListener("blur", () => this.unpick());
      word.addEventListener("keydown", (event) => this.walk(event, t, n));
      return word;
    }

    /* Arrow keys walk from word to word; only one word is a tab stop. */
    walk(event, t, n) {
      const rtl = getComputedStyle(event.currentTarget.parentElement).direction === "rtl" ? -1 : 1;
      const [down, right] = { ArrowLeft: [0, -rtl], ArrowRight: [0, rtl], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[
        event.key] || [0, 0];
      if (event.key === "Escape") event.currentTarget.blur();
      if (!down && !right) return;
      event.preventDefault();
      event.stopPropagation();
      const next = (this.rows[t + down] || [])[n + right];
      if (!next) return;
      event.currentTarget.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }

    /* A word read the words of the pass before: they are highlighted there, all others step back. */
    pick(t, n) {
      this.unpick();
      const passes = this.passes();
      const about = describe(passes, t, n);
      this.list.classList.add("picking");
      this.rows[t][n].classList.add("picked");
      if (about.made > 0) {
        for (const m of passes[about.made].observed[n]) this.rows[about.made - 1][m].classList.add("observed");
      }
      this.detail.replaceChildren(foreign("strong", "", passes[t].words[n]),
        ` in pass ${t + 1} · `, foreign("span", "", about.text));
    }

    unpick() {
      this.list.classList.remove("picking");
      for (const node of this.list.querySelectorAll(".picked, .observed")) node.classList.remove("picked", "observed");
    }

    show(t) {
      this.current = t;
      const passes = this.passes();
      const shown = Math.min(t, passes.length - 1);
      this.items.forEach((item, index) => {
        item.classList.toggle("later", index > shown);
        if (index === shown) item.setAttribute("aria-current", "step");
        else item.removeAttribute("aria-current");
      });
      this.chips.forEach((chip, k) => {
        const leads = this.trace.winners[shown] === k;
        const score = shown < 0 ? "" : this.trace.passes[shown][k].score.toFixed(2);
        chip.classList.toggle("leads", leads);
        chip.setAttribute("aria-checked", String(k === this.candidate));
        chip.tabIndex = k === this.candidate ? 0 : -1;
        chip.querySelector(".score").textContent = score.replace("-", "\u2212");
        chip.setAttribute("aria-label",
          `${plural(this.trace.lengths[k], "word")}, score ${score}${leads ? ", best in this pass" : ""}`);
      });
    }

    /* Every position gets the width of its widest word, so that the passes stay aligned even when they wrap. */
    align() {
      for (const row of this.rows) for (const word of row) word.style.minWidth = "";
      const widths = this.rows.length
        ? this.rows[0].map((_, n) => Math.max(...this.rows.map((row) => row[n].getBoundingClientRect().width)))
        : [];
      for (const row of this.rows) row.forEach((word, n) => { word.style.minWidth = `${Math.ceil(widths[n])}px`; });
    }
  }

  function buildLegend() {
    const legend = element("ul", "legend");
    legend.setAttribute("aria-label", "legend");
    const sample = (className, text, note) => {
      const word = element("span", `word ${className}`, text);
      word.style.setProperty("--p", 0.7);
      return append(element("li"), word, note);
    };
    const scale = append(element("li"), "unsure", element("span", "scale"), "sure");
    return append(legend, scale, sample("changed", "word", "changed in this pass"), sample("kept", "word", "kept, not predicted again"),
      sample("observed", "word", "observed by the word you point at"),
      append(element("li"), "★ best length so far"));
  }

  function buildControls(count, show) {
    const root = element("div", "controls");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "passes");
    const button = (className, text, label, action) => {
      const node = element("button", className, text);
      node.type = "button";
      if (label) node.setAttribute("aria-label", label);
      node.addEventListener("click", action);
      return node;
    };
    let current = count - 1;
    let timer = null;
    const slider = element("input");
    Object.assign(slider, { type: "range", min: 1, max: Math.max(count, 1), step: 1, value: count });
    slider.setAttribute("aria-label", "pass");
    const output = element("output");
    output.setAttribute("aria-live", "polite");

    function go(t) {
      current = Math.max(0, Math.min(count - 1, t));
      slider.value = current + 1;
      slider.setAttribute("aria-valuetext", `pass ${current + 1} of ${count}`);
      output.textContent = `Pass ${current + 1} of ${count}`;
      back.disabled = current === 0;
      forth.disabled = current === count - 1;
      show(current);
    }
    function stop() {
      clearInterval(timer);
      timer = null;
      play.textContent = "▶ Play";
    }
    function toggle() {
      if (timer) { stop(); return; }
      play.textContent = "❚❚ Pause";
      go(current === count - 1 ? 0 : current + 1);
      timer = setInterval(() => {
        if (current < count - 1) go(current + 1);
        if (current >= count - 1) stop();
      }, PLAY_MILLISECONDS);
    }
    const byHand = (t) => { stop(); go(t); };
    const play = button("play", "▶ Play", "", toggle);
    const back = button("", "‹", "previous pass", () => byHand(current - 1));
    const forth = button("", "›", "next pass", () => byHand(current + 1));
    slider.addEventListener("input", () => byHand(slider.value - 1));
    document.addEventListener("keydown", (event) => {
      if (event.target === slider || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.target.closest && event.target.closest("input, textarea, [contenteditable]")) return;
      const target = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: count - 1 }[event.key];
      if (target !== undefined) { event.preventDefault(); byHand(target); }
    });
    append(root, play, back, slider, forth, output);
    return { root, go: byHand };
  }

  function render(root, data) {
    const detail = element("p", "detail", "Point at a word, or walk with Tab and the arrow keys, to see what it saw.");
    detail.setAttribute("aria-hidden", "true");      // the words themselves carry the same text as their label
    const panels = data.traces.map((trace, number) => new Panel(trace, number, detail));
    const count = Math.max(0, ...data.traces.map((trace) => trace.passes.length));
    const controls = buildControls(count, (t) => panels.forEach((panel) => panel.show(t)));
    root.addEventListener("pass", (event) => controls.go(event.detail));
    root.replaceChildren(element("p", "eyebrow", "Disco · how a translation comes about"),
      foreign("h1", "", data.source), ...(count ? [controls.root] : []),
      append(element("div", "panels"), ...panels.map((panel) => panel.root)), buildLegend(), detail);
    controls.go(count - 1);
    const align = () => panels.forEach((panel) => panel.align());
    align();
    window.addEventListener("resize", align);
  }

  return { render };
})();

{
  const data = document.getElementById("disco-trace-data");
  if (data) DiscoTrace.render(document.getElementById("disco-trace"), JSON.parse(data.textContent));
}
