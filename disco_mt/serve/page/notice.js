/* Trouble, said kindly; tries again by itself where that helps. */
import { append, button, element } from "../view/dom.js";

export class Notice {
  /* `retry()` asks the server once more; `giveKey(key)` sets a key first. */
  constructor(root, retry, giveKey) {
    Object.assign(this, { root, retry, giveKey, timer: null });
    addEventListener("online", () => { if (!root.hidden) this.again(); });
  }

  clear() {
    clearInterval(this.timer);
    this.root.hidden = true;
    this.root.replaceChildren();
  }

  show(trouble) {
    this.clear();
    append(this.root, element("span", "", trouble.message));
    if (trouble.kind === "key") append(this.root, this.keyForm());
    if (trouble.again !== null) append(this.root, this.countdown(Math.ceil(trouble.again)));
    if (trouble.kind !== "key") append(this.root, button("plain", trouble.again === null ? "Close" : "Try now", "",
      () => (trouble.again === null ? this.clear() : this.again())));
    this.root.hidden = false;
  }

  again() {
    this.clear();
    this.retry();
  }

  countdown(seconds) {
    const text = element("span", "count");
    text.setAttribute("aria-hidden", "true");
    const tick = () => {
      text.textContent = ` Trying again in ${seconds} s.`;
      if (seconds <= 0) this.again();
      seconds -= 1;
    };
    tick();
    this.timer = setInterval(tick, 1000);
    return text;
  }

  keyForm() {
    const form = element("form", "row");
    const field = element("input");
    Object.assign(field, { type: "password", autocomplete: "off", required: true });
    field.setAttribute("aria-label", "API key");
    append(form, field, element("button", "pin", "Use it"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.giveKey(field.value);
      this.again();
    });
    return form;
  }
}
