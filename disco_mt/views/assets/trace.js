/* The page that `disco trace --html` writes: one sentence, its strategies side by side. */
import { Controls } from "./controls.js";
import { Detail, buildLegend } from "./detail.js";
import { append, element, foreign } from "./dom.js";
import { Panel } from "./panel.js";

function render(root, data) {
  const detail = new Detail();
  const panels = data.traces.map((trace) => new Panel(trace, { detail: detail.say, go: (t) => controls.go(t) }));
  const controls = new Controls((t) => panels.forEach((panel) => panel.show(t)));
  root.replaceChildren(
    append(element("header", "top"), element("p", "eyebrow", "Disco · how a translation comes about"),
      foreign("h1", "", data.source)),
    controls.root, append(element("div", "panels"), ...panels.map((panel) => panel.root)), buildLegend(), detail.root);
  controls.reset(Math.max(0, ...data.traces.map((trace) => trace.passes.length)));
  const align = () => panels.forEach((panel) => panel.align());
  align();
  window.addEventListener("resize", align);
}

render(document.getElementById("disco-trace"), JSON.parse(document.getElementById("disco-trace-data").textContent));
