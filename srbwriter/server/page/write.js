// The page: a story, N live branches of what comes next, and the verbs on them.

import { ApiError, call, events } from "/page/api.js";

const $ = (id) => document.getElementById(id);
const story = $("story");
const panes = $("panes");

let base = ""; // the text that the panes continue
let asked = []; // requests that are read: their ids, once they are known, and how to leave them
let past = []; // for undo
let chain = Promise.resolve(); // verbs run one after the other

function say(text, wrong = false) {
  $("status").textContent = text;
  $("status").classList.toggle("wrong", wrong);
}
const save = () => localStorage.setItem("story", story.value);
const length = (text) => [...text].length; // as the server counts: characters, not halves of them

// ---- settings

const kept = JSON.parse(localStorage.getItem("settings") ?? "{}");
const fields = () => document.querySelectorAll("#controls input, #controls select, #controls textarea");
const number = (id) => ($(id).value === "" ? undefined : Number($(id).value));

function settings() {
  const chosen = [...$("samplers").querySelectorAll("input")].filter((input) => input.value !== "");
  return {
    n: number("n"),
    max_tokens: number("tokens"),
    temperature: number("temperature"),
    heal: true,
    ...($("until").value ? { boundary: $("until").value } : { stop: [] }),
    ...Object.fromEntries(chosen.map((input) => [input.name, Number(input.value)])),
  };
}

// Every number that the server's own description calls a parameter of sampling.
async function listSamplers() {
  const body = (await call("GET", "/openapi.json")).paths["/srb/v1/completions"].post.requestBody;
  for (const [name, field] of Object.entries(body.content["application/json"].schema.properties)) {
    if (field["x-record"] !== "sampling" || !["number", "integer"].includes(field.type) || $(name)) continue;
    const input = Object.assign(document.createElement("input"), {
      id: `sampler-${name}`, name, type: "number", title: field.description, inputMode: "decimal",
      step: field["x-step"] ?? "any", placeholder: field.default ?? "",
    });
    if (field.minimum !== undefined) input.min = field.minimum;
    if (field.maximum !== undefined) input.max = field.maximum;
    const label = document.createElement("label");
    label.append(name.replaceAll("_", " "), input);
    $("samplers").append(label);
  }
}

function restore() {
  for (const field of fields()) {
    field.dataset.own = field.value;
    if (kept[field.id] !== undefined) field.value = kept[field.id];
    field.onchange = () => {
      kept[field.id] = field.value;
      localStorage.setItem("settings", JSON.stringify(kept));
    };
  }
}

function defaults() {
  for (const field of fields()) {
    field.value = field.dataset.own;
    delete kept[field.id];
  }
  localStorage.setItem("settings", JSON.stringify(kept));
}

const THEMES = { "": "as the system", light: "light", dark: "dark" };

function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[name]}`);
  $("theme").title = `Colours: ${THEMES[name]}`;
  localStorage.setItem("theme", name);
}

// ---- writing

async function write() {
  halt();
  if (!story.value) {
    story.value = story.placeholder; // an empty story begins as it is proposed
    save();
  }
  base = story.value;
  panes.replaceChildren();
  ask();
}

// Ask for what follows `base`, and show it in a pane that is there, or else in one for each branch.
async function ask(pane) {
  const current = { id: "", stop: new AbortController() };
  asked.push(current);
  let shown = [];
  try {
    const body = { ...settings(), prompt: base, ...(pane ? { n: 1 } : {}) };
    for await (const event of events(body, current.stop.signal)) {
      if (event.event === "start") {
        current.id = event.id;
        shown = pane ? [pane] : Array.from({ length: event.count }, (_, index) => newPane(index));
        for (const [number, one] of shown.entries()) Object.assign(one, { request: current, number });
        if (!pane) panes.replaceChildren(...shown);
      } else show(event, shown[event.index]);
    }
  } catch (error) {
    refuse(error);
  } finally {
    current.id = "";
    asked = asked.filter((one) => one !== current);
  }
}

// The server stops what nobody reads.
function halt() {
  for (const one of asked) one.stop.abort();
}

const ENDS = {
  eog: "ended by itself", length: "at its limit of tokens", stop: "at a stop text", line: "a line",
  sentence: "a sentence", paragraph: "a paragraph", context: "the context is full",
};

function show(event, pane) {
  const state = (name, words) => Object.assign(pane.querySelector(".state"), { textContent: words ?? name }).dataset.state = name;
  switch (event.event) {
    case "stream": tell(pane, pane.text + event.text); state("writing"); break;
    case "cut": tell(pane, [...pane.text].slice(0, event.chars).join("")); break;
    case "stop": state(event.reason, event.error ?? ENDS[event.reason]); break;
    case "prompt": say(`reading ${event.done} of ${event.total} tokens, ${event.cached} known`); break;
    case "banned": pane.querySelector(".marks").textContent = `⌫${pane.bans = (pane.bans ?? 0) + 1}`; break;
    case "done": say(`${event.completion_tokens} tokens written`); break;
    case "error": say(event.error, true); break;
  }
}

// ---- panes

const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });

function tell(pane, text) {
  pane.text = text;
  let end = 0;
  pane.querySelector(".text").replaceChildren(...Array.from(sentences.segment(text), ({ segment }) => {
    const span = Object.assign(document.createElement("span"), { className: "sentence", textContent: segment });
    const upTo = (end += length(segment));
    span.title = "Keep the branch up to here";
    span.onclick = () => verb(() => pick(pane.index, upTo < length(pane.text) ? upTo : undefined));
    return span;
  }));
}

function newPane(index) {
  const pane = $("pane").content.firstElementChild.cloneNode(true);
  Object.assign(pane, { text: "", index });
  pane.querySelector(".key").textContent = index < 9 ? `${index + 1}` : "";
  pane.querySelector(".state").textContent = "waiting";
  pane.querySelector(".pick").onclick = () => verb(() => pick(index));
  pane.querySelector(".again").onclick = () => verb(() => again(index));
  pane.setAttribute("aria-label", `Branch ${index + 1}`);
  return pane;
}

// ---- verbs

async function pick(index, chars) {
  const pane = panes.children[index];
  if (!pane) return;
  past.push(base);
  story.value = base + [...pane.text].slice(0, chars).join("");
  save();
  look();
  await write();
}

// The story's end is what a writer wants to see after a pick.
function look() {
  story.scrollTop = story.scrollHeight;
  document.querySelector(".story").scrollIntoView({ block: "start" });
}

async function again(index) {
  const pane = panes.children[index];
  pane.querySelector(".marks").replaceChildren();
  if (pane.request.id) {
    const path = `/srb/v1/requests/${pane.request.id}/branches/${pane.number}/reroll`;
    if (await call("POST", path, settings()).then(() => true, () => false)) return; // else it has just ended
  }
  tell(pane, "");
  ask(pane);
}

async function undo() {
  if (!past.length) return say("nothing to undo");
  story.value = past.pop();
  save();
  look();
  await write();
}

async function stop() {
  await Promise.all(asked.filter((one) => one.id).map((one) => call("POST", `/srb/v1/requests/${one.id}/cancel`).catch(() => {})));
}

function exported() {
  const words = story.value.trim().split(/\s+/).slice(0, 6).join(" ").replace(/[^\p{L}\p{N} -]/gu, "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([story.value], { type: "text/plain" }));
  link.download = `${words || "story"}.txt`;
  link.click();
  URL.revokeObjectURL(link.href);
}

function verb(action) {
  chain = chain.then(action).catch(refuse);
}

function refuse(error) {
  if (error instanceof ApiError && error.status === 401) askForKey();
  else if (error.name !== "AbortError") say(error.message, true);
}

function askForKey() {
  $("wrong").hidden = !sessionStorage.getItem("key");
  say($("wrong").hidden ? "a key is needed" : "this server does not know that key", true);
  $("key").value = "";
  $("ask").showModal();
}

$("controls").onsubmit = (event) => { event.preventDefault(); verb(write); };
$("reroll").onclick = () => verb(write);
$("stop").onclick = () => verb(stop);
$("undo").onclick = () => verb(undo);
$("export").onclick = exported;
$("defaults").onclick = defaults;
$("theme").onclick = () => {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length]);
};
$("ask").onclose = () => { sessionStorage.setItem("key", $("key").value); verb(start); };
story.oninput = save;
document.addEventListener("keydown", (event) => {
  if ($("ask").open) return;
  const typing = ["TEXTAREA", "INPUT", "SELECT"].includes(event.target.tagName);
  const plain = !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) verb(write);
  else if (event.key === "Escape") { event.target.blur(); verb(stop); }
  else if (plain && /^[1-9]$/.test(event.key) && panes.children[event.key - 1]) verb(() => pick(event.key - 1));
  else if (plain && event.key === "r") verb(write);
  else if (plain && event.key === "u") verb(undo);
  else return;
  event.preventDefault();
});

async function start() {
  const [model] = (await call("GET", "/v1/models")).data;
  $("n").max = model.max_n;
  say(`${model.id} · ${model.engine_state.toLowerCase()}`);
}

theme(localStorage.getItem("theme") ?? "");
story.value = localStorage.getItem("story") ?? "";
verb(listSamplers);
verb(restore);
verb(start);
