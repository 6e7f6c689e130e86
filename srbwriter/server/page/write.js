// The page: a story, N live branches of what comes next, and the verbs on them.

import { ApiError, call, follow } from "/page/api.js";

const $ = (id) => document.getElementById(id);
const story = $("story");
const panes = $("panes");

let request = null; // what the panes show: its id, the text it continues, the last event seen
let anchor = null; // the branch whose text the story ends with: { request, branch, text }
let past = []; // for undo: [{ text, anchor }]
let chain = Promise.resolve(); // verbs run one after the other

const say = (text) => { $("status").textContent = text; };
const save = () => localStorage.setItem("story", story.value);
const setting = (id) => ($(id).value === "" ? undefined : Number($(id).value));

const settings = () => ({
  n: setting("n"),
  max_tokens: setting("tokens"),
  temperature: setting("temperature"),
  heal: true,
  ...($("until").value ? { boundary: $("until").value } : { stop: [] }),
});

// ---- writing

async function write() {
  await halt();
  const text = story.value;
  const after = anchor && text.startsWith(anchor.text) ? anchor : null;
  if (!text && !after) return story.focus();
  const whole = { ...settings(), prompt: text };
  const typed = after && text.slice(after.text.length);
  const going = after && { ...settings(), parent: { request: after.request, branch: after.branch }, ...(typed ? { prompt: typed } : {}) };
  let made;
  try {
    made = await call("POST", "/srb/v1/requests", going ?? whole);
  } catch (error) {
    if (!(going && error instanceof ApiError && error.status === 404)) throw error;
    made = await call("POST", "/srb/v1/requests", whole); // the server has forgotten the parent
  }
  request = { id: made.id, base: text, after: 0, stop: new AbortController(), following: false, more: false };
  panes.replaceChildren(...Array.from({ length: made.count }, (_, index) => newPane(index)));
  read(request);
}

async function halt() {
  if (!request) return;
  const old = request;
  request = null;
  old.stop.abort();
  await call("POST", `/srb/v1/requests/${old.id}/cancel`).catch(() => {});
}

async function read(current) {
  if (current.following) return;
  current.following = true;
  try {
    do {
      current.more = false; // a verb may ask for another look while a stream is ending
      for await (const [number, event] of follow(current.id, current.after, current.stop.signal)) {
        if (request !== current) return;
        current.after = Math.max(current.after, number);
        show(event);
      }
    } while (current.more);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  } finally {
    current.following = false;
  }
}

function show(event) {
  const pane = event.index === undefined ? null : panes.children[event.index] ?? panes.appendChild(newPane(event.index));
  const text = pane?.querySelector(".text");
  const state = pane?.querySelector(".state");
  switch (event.event) {
    case "stream": text.append(event.text); state.textContent = "writing"; break;
    case "cut": text.textContent = [...text.textContent].slice(0, event.chars).join(""); break;
    case "stop": state.textContent = event.reason; break;
    case "prompt": say(`reading ${event.done} of ${event.total} tokens, ${event.cached} known`); break;
    case "done": say(`${event.completion_tokens} tokens written`); break;
    case "error": say(event.error); break;
  }
}

function newPane(index) {
  const pane = $("pane").content.firstElementChild.cloneNode(true);
  pane.querySelector(".key").textContent = index < 9 ? `${index + 1}` : "";
  pane.querySelector(".state").textContent = "waiting";
  pane.querySelector(".pick").onclick = () => verb(() => pick(index));
  pane.querySelector(".text").onclick = () => verb(() => pick(index));
  pane.querySelector(".again").onclick = () => verb(() => again(index));
  pane.setAttribute("aria-label", `Branch ${index + 1}`);
  return pane;
}

// ---- verbs

async function pick(index) {
  if (!request) return;
  const { id, base, stop } = request;
  const picked = await call("POST", `/srb/v1/requests/${id}/branches/${index}/pick`);
  stop.abort();
  request = null;
  past.push({ text: base, anchor });
  story.value = base + picked.text;
  anchor = { ...picked.parent, text: story.value };
  story.scrollTop = story.scrollHeight;
  save();
  await write();
}

async function again(index) {
  if (!request) return;
  const current = request;
  await call("POST", `/srb/v1/requests/${current.id}/branches/${index}/reroll`, settings());
  current.more = true;
  read(current);
}

async function undo() {
  const before = past.pop();
  if (!before) return say("nothing to undo");
  await halt();
  ({ text: story.value, anchor } = before);
  save();
  await write();
}

function verb(action) {
  chain = chain.then(action).catch((error) => {
    if (error instanceof ApiError && error.status === 401) return $("ask").showModal();
    say(error.message);
  });
}

$("controls").onsubmit = (event) => { event.preventDefault(); verb(write); };
$("reroll").onclick = () => verb(write);
$("stop").onclick = () => verb(async () => { if (request) await call("POST", `/srb/v1/requests/${request.id}/cancel`); });
$("undo").onclick = () => verb(undo);
$("ask").onclose = () => { sessionStorage.setItem("key", $("key").value); verb(start); };
story.oninput = save;
document.addEventListener("keydown", (event) => {
  const typing = ["TEXTAREA", "INPUT", "SELECT"].includes(event.target.tagName);
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) verb(write);
  else if (!typing && /^[1-9]$/.test(event.key) && panes.children[event.key - 1]) verb(() => pick(event.key - 1));
  else if (!typing && event.key === "r") verb(write);
  else if (!typing && event.key === "u") verb(undo);
  else return;
  event.preventDefault();
});

async function start() {
  const [model] = (await call("GET", "/v1/models")).data;
  $("n").max = model.max_n;
  say(`${model.id} · ${model.engine_state.toLowerCase()}`);
}

story.value = localStorage.getItem("story") ?? "";
verb(start);
