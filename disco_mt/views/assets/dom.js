/* Elements. Text reaches the page by textContent only, so no text can become markup. */

export function element(tag, className = "", text = undefined) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

/* Text of the user's languages has a direction of its own. */
export function foreign(tag, className, text) {
  const node = element(tag, className, text);
  node.dir = "auto";
  return node;
}

export function button(className, text, label, action) {
  const node = element("button", className, text);
  node.type = "button";
  if (label) node.setAttribute("aria-label", label);
  if (action) node.addEventListener("click", action);
  return node;
}

export function append(parent, ...children) {
  parent.append(...children);
  return parent;
}

export const percent = (p) => `${Math.round(100 * p)} %`;
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
export const signed = (value) => value.toFixed(2).replace("-", "\u2212");
