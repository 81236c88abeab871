/* The slider through the passes, with buttons, keys and a play button. */
import { append, button, element } from "./dom.js";

const PLAY_MILLISECONDS = 1100;

export class Controls {
  /* `show(t)` is called whenever another pass is to be seen. */
  constructor(show) {
    this.show = show;
    this.count = 0;
    this.current = 0;
    this.timer = null;
    this.play = button("play", "", "", () => this.toggle());
    this.back = button("step", "‹", "previous pass", () => this.go(this.current - 1));
    this.forth = button("step", "›", "next pass", () => this.go(this.current + 1));
    this.slider = element("input");
    Object.assign(this.slider, { type: "range", min: 1, step: 1 });
    this.slider.setAttribute("aria-label", "pass");
    this.slider.addEventListener("input", () => this.go(this.slider.value - 1));
    this.output = element("output");
    this.root = element("div", "controls");
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "passes");
    append(this.root, this.play, this.back, this.slider, this.forth, this.output);
    document.addEventListener("keydown", (event) => this.key(event));
    this.stop();
  }

  /* New passes: the last one is shown. */
  reset(count) {
    this.count = count;
    this.slider.max = Math.max(1, count);
    this.root.hidden = count === 0;
    this.go(count - 1);
  }

  go(t) {
    this.stop();
    this.move(t);
  }

  move(t) {
    this.current = Math.max(0, Math.min(this.count - 1, t));
    this.slider.value = this.current + 1;
    this.output.textContent = `Pass ${this.current + 1} of ${this.count}`;
    this.slider.setAttribute("aria-valuetext", this.output.textContent);
    this.back.disabled = this.current === 0;
    this.forth.disabled = this.current >= this.count - 1;
    this.show(this.current);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "▶ Play";
  }

  toggle() {
    if (this.timer) { this.stop(); return; }
    this.play.textContent = "❚❚ Pause";
    this.move(this.current >= this.count - 1 ? 0 : this.current + 1);
    this.timer = setInterval(() => {
      if (this.current < this.count - 1) this.move(this.current + 1);
      if (this.current >= this.count - 1) this.stop();
    }, PLAY_MILLISECONDS);
  }

  key(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || !this.count) return;
    if (event.target.closest?.("input, textarea, select, [role=dialog], [role=radiogroup]")) return;
    const target = { ArrowLeft: this.current - 1, ArrowRight: this.current + 1, Home: 0, End: this.count - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.go(target);
  }
}
