/* Words as one tab stop: arrow keys walk, in the direction in which the text reads. */

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/* From (row, column) to the next word; `at(row, column)` gives an element or nothing. True if the key was ours. */
export function walk(event, row, column, at) {
  if (event.altKey || event.ctrlKey || event.metaKey) return false;
  const move = MOVES[event.key];
  if (!move) return false;
  const reading = getComputedStyle(event.currentTarget.parentElement).direction === "rtl" ? -1 : 1;
  event.preventDefault();
  event.stopPropagation();
  const next = at(row + move[0], column + reading * move[1]);
  if (next) moveStop(event.currentTarget, next);
  return true;
}

function moveStop(from, to) {
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

/* The first of these is the tab stop. */
export function firstStop(nodes) {
  nodes.forEach((node, index) => { node.tabIndex = index === 0 ? 0 : -1; });
}
