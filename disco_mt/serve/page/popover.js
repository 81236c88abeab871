/* The small window at a word: pin it as it is, write another, or let it go. */
import { append, button, element, foreign } from "../view/dom.js";

export class Popover {
  constructor() {
    this.root = element("div", "popover");
    this.root.setAttribute("role", "dialog");
    const form = element("form");
    this.root.hidden = true;
    this.field = element("input");
    Object.assign(this.field,
      { type: "text", dir: "auto", required: true, maxLength: 100, autocomplete: "off", spellcheck: false });
    this.field.setAttribute("aria-label", "word or phrase to pin");
    this.here = element("input");
    this.here.type = "checkbox";
    this.title = foreign("p", "about", "");
    this.unpin = button("plain", "Unpin", "", () => this.finish(() => this.actions.unpin()));
    const pin = element("button", "pin", "Pin");
    append(this.root, append(form, this.title, append(element("div", "row"), this.field, pin),
      append(element("div", "row"), append(element("label"), this.here, " at this place"), this.unpin)));
    form.addEventListener("submit", (event) => this.submit(event));
    this.root.addEventListener("keydown", (event) => { if (event.key === "Escape") this.finish(); });
    document.addEventListener("pointerdown", (event) => {
      if (!this.root.hidden && !this.root.contains(event.target)) this.hide();
    });
    addEventListener("resize", () => this.hide());
  }

  /* `actions`: pin(text, here), unpin(). `pin`: the pin that the word belongs to, or null. */
  open(node, word, pin, actions) {
    this.anchor = node;
    this.actions = actions;
    this.title.textContent = pin ? "Pinned. The rest adapts to it." : "Sure of this word? Or of a better one?";
    this.root.setAttribute("aria-label", pin ? `pinned: ${pin.text}` : `pin ${word.text}`);
    this.field.value = pin ? pin.text : word.text;
    this.here.checked = !pin || pin.at !== null;
    this.unpin.hidden = !pin;
    this.root.hidden = false;
    this.place();
    this.field.focus({ preventScroll: true });
    this.field.select();
  }

  /* Below the word, within the window. */
  place() {
    const word = this.anchor.getBoundingClientRect();
    const width = this.root.offsetWidth;
    const left = Math.max(8, Math.min(word.left + word.width / 2 - width / 2, document.documentElement.clientWidth - width - 8));
    this.root.style.left = `${left + scrollX}px`;
    this.root.style.top = `${word.bottom + 8 + scrollY}px`;
    this.root.style.setProperty("--arrow", `${word.left + word.width / 2 - left}px`);
    this.root.scrollIntoView({ block: "nearest" });
  }

  submit(event) {
    event.preventDefault();
    const text = this.field.value.trim().replace(/\s+/g, " ");
    if (text) this.finish(() => this.actions.pin(text, this.here.checked));
  }

  finish(action) {
    this.hide();
    this.anchor.focus({ preventScroll: true });
    action?.();
  }

  hide() { this.root.hidden = true; }
}
