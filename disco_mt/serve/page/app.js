/* The page: what is typed is translated; what is clicked is pinned; what is seen can be shared. */
import { Trouble, listModels, translate, useKey } from "./api.js";
import { EXAMPLES } from "./examples.js";
import { Notice } from "./notice.js";
import { follow, pinOf } from "./pins.js";
import { Popover } from "./popover.js";
import { fromFragment, toFragment, whole } from "./state.js";
import { Story } from "./story.js";
import { append, button, element, foreign, plural } from "../view/dom.js";

const PAUSE = 250;          // milliseconds without a key before the text is sent

const $ = (id) => document.getElementById(id);
const source = $("source");
const settings = $("settings");
const story = new Story($("translation"), $("sentences"), openPopover);
const popover = new Popover();
const notice = new Notice($("notice"), () => refresh(), useKey);
let state = fromFragment(location.hash);
let models = [];
let model = null;           // the one in use
let timer = null;
let running = null;         // the request under way: a newer one ends it

/* Asking the server */

/* What was chosen, as far as the model can do it. */
function strategies() {
  const wanted = state.strategy === "both" ? ["easy-first", "mask-predict"] : [state.strategy];
  const fitting = wanted.filter((name) => model?.strategies.includes(name) ?? true);
  return fitting.length ? fitting : [""];
}

async function refresh(pins = state.pins) {
  clearTimeout(timer);
  running?.abort();
  popover.hide();
  if (!state.text.trim()) { running = null; showEmpty(); return false; }
  const request = running = new AbortController();
  const { text } = state;                               // it may be edited while we wait
  document.body.classList.add("waiting");
  try {
    const results = await ask(pins, request.signal);
    if (request === running) showResults(text, results);
    return true;
  } catch (error) {
    if (request === running) { story.restore(); $("empty").hidden = story.cards.length > 0; }
    if (error.name !== "AbortError") showTrouble(error);
    return false;
  } finally {
    if (request === running) document.body.classList.remove("waiting");
  }
}

const unseen = () => {};

/* Where the text has changed since words were pinned, the server is first asked for its sentences. */
async function ask(pins, signal) {
  const known = story.cards.map((card) => card.source);
  const inPlace = story.text === state.text && pins.every((pin) => pin.of === known[pin.sentence]);
  if (pins.length && !inPlace) {
    const plain = await translate(state, strategies()[0], [], signal, unseen);
    pins = follow(pins, plain.sentences.map((sentence) => sentence.source));
  }
  const watch = (pass) => {
    if (signal.aborted) return;
    notice.clear();
    $("empty").hidden = true;
    story.preview(pass);
  };
  const results = await Promise.all(strategies().map((name, index) =>
    translate(state, name, pins, signal, index ? unseen : watch)));
  state.pins = pins;
  return results;
}

/* Showing what came back */

function showResults(text, results) {
  notice.clear();
  story.text = text;
  story.translated = results[0].text;
  story.show(results);
  $("empty").hidden = true;
  $("story").hidden = !results[0].sentences.some((sentence) => sentence.watched);
  $("facts").textContent = facts(results[0]);
  $("copy").hidden = false;
  $("live").textContent = `Translation: ${results[0].text}`;
  showPins();
  remember();
}

function facts({ sentences, milliseconds }) {
  const steps = sentences.reduce((sum, sentence) => sum + sentence.trace.steps, 0);
  const several = sentences.length > 1 ? `${plural(sentences.length, "sentence")} · ` : "";
  return `${several}${plural(steps, "step")} · ${Math.round(milliseconds)} ms`;
}

function showEmpty() {
  document.body.classList.remove("waiting");
  notice.clear();
  story.cards = [];
  story.text = "";
  state.pins = [];
  $("translation").replaceChildren();
  $("empty").hidden = false;
  $("story").hidden = true;
  $("copy").hidden = true;
  $("facts").textContent = "";
  showPins();
  remember();
}

function showTrouble(error) {
  if (!(error instanceof Trouble)) throw error;
  notice.show(error);
}

function showPins() {
  const chips = state.pins.map((pin) => {
    const remove = button("remove", "×", `unpin ${pin.text}`, () => changePins(state.pins.filter((other) => other !== pin)));
    return append(element("li"), foreign("span", "", pin.text), pin.at === null ? element("i", "", "anywhere") : "", remove);
  });
  const all = button("plain", "Unpin all", "", () => changePins([]));
  $("pins").replaceChildren(...chips, ...(chips.length > 1 ? [append(element("li", "all"), all)] : []));
  $("pins").hidden = !chips.length;
}

/* Pins */

function openPopover(sentence, panel, word, node) {
  const pin = pinOf(state.pins, sentence, panel.passes()[panel.current], word);
  const others = state.pins.filter((other) => other !== pin);
  const of = story.cards[sentence].source;
  const at = pin?.at ?? word.start;
  popover.open(node, word, pin, {
    pin: (text, here) => changePins([...others, { sentence, at: here ? at : null, text, of }], sentence, word.start),
    unpin: () => changePins(others, sentence, word.start),
  });
}

/* Pins that the server refuses leave everything as it was. */
async function changePins(pins, sentence = null, start = 0) {
  const done = await refresh(pins);
  if (done && sentence !== null) story.cards[sentence]?.stage.focus(start);
}

/* What a person does */

function typed() {
  state.text = source.value;
  fit();
  clearTimeout(timer);
  timer = setTimeout(refresh, PAUSE);
}

function fit() {
  source.style.height = "auto";
  source.style.height = `${source.scrollHeight}px`;
  $("clear").hidden = !source.value;
}

function setText(text) {
  source.value = text;
  source.focus();
  typed();
  refresh();
}

function changeSettings() {
  const chosen = new FormData(settings);
  state.strategy = chosen.get("strategy");
  state.iterations = whole(chosen.get("iterations"), 1, 20, state.iterations);
  state.lengthBeam = whole(chosen.get("lengthBeam"), 1, 10, state.lengthBeam);
  refresh();
}

function remember() {
  const fragment = toFragment(state);
  history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
}

async function copy(node, text) {
  const label = node.textContent;
  try {
    await navigator.clipboard.writeText(text);
    node.textContent = "Copied";
  } catch {
    prompt("Copy this:", text);             // where the page is not allowed to write to the clipboard
  }
  $("live").textContent = "Copied";
  setTimeout(() => { node.textContent = label; }, 1500);
}

/* The beginning */

function showState() {
  source.value = state.text;
  settings.elements.strategy.value = state.strategy;
  settings.elements.iterations.value = state.iterations;
  settings.elements.lengthBeam.value = state.lengthBeam;
  fit();
}

async function showModels() {
  models = await listModels();
  const pair = (each) => `${named(each.source)} → ${named(each.target)}`;
  const several = (each) => models.filter((other) => pair(other) === pair(each)).length > 1;
  $("model").replaceChildren(...models.map((each) =>
    new Option(pair(each) + (several(each) ? ` · ${each.name}` : ""), each.name)));
  $("model").parentElement.hidden = models.length < 2;
  useModel(state.model);
}

/* "de" -> "German" */
function named(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language || "Text";          // a model that does not say
  }
}

function useModel(name) {
  model = models.find((each) => each.name === name) ?? models[0];
  state.model = models[0] === model ? "" : model.name;
  $("model").value = model.name;
  source.lang = model.source;
  $("translation").lang = model.target;
  $("source-label").textContent = named(model.source);
  $("target-label").textContent = named(model.target);
  for (const choice of settings.elements.strategy) {
    choice.disabled = !(choice.value === "both" ? ["easy-first", "mask-predict"] : [choice.value])
      .every((each) => model.strategies.includes(each));
  }
  const examples = EXAMPLES[model.source] ?? [];
  $("examples").replaceChildren(...examples.map((text) =>
    append(element("li"), button("example", text, "", () => setText(text)))));
}

source.addEventListener("input", typed);
settings.addEventListener("change", changeSettings);
settings.addEventListener("submit", (event) => event.preventDefault());
$("clear").addEventListener("click", () => setText(""));
$("copy").addEventListener("click", () => copy($("copy"), story.translated));
$("share").addEventListener("click", () => { remember(); copy($("share"), location.href); });
$("model").addEventListener("change", () => {
  useModel($("model").value);
  refresh();
});
addEventListener("hashchange", () => {
  state = fromFragment(location.hash);
  if (models.length) useModel(state.model);
  showState();
  refresh();
});
$("controls").append(story.controls.root);
$("legend").append(story.legend);
$("detail").append(story.detail.root);
document.querySelector(".disco").append(popover.root);
showState();
showModels().catch(showTrouble).then(() => refresh());
