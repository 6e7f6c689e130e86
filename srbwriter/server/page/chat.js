// A conversation over POST /completion. The whole of it is sent each time: the server has read its beginning before.

import { llama } from "/completion.js";

const at = (id) => document.getElementById(id);
const KEPT = "srbwriter-chat";
const fields = ["you", "they", "before", "tokens"];
let turns = [], running = null;

function status(text, wrong = false) {
  at("status").textContent = text;
  at("status").classList.toggle("wrong", wrong);
}

function show(mine, text) {
  const line = Object.assign(document.createElement("p"), { textContent: text, className: mine ? "mine" : "theirs" });
  at("talk").append(line);
  line.scrollIntoView({ block: "end" });
  return line;
}

function keep() {
  localStorage.setItem(KEPT, JSON.stringify({ turns, ...Object.fromEntries(fields.map((name) => [name, at(name).value])) }));
}

function recall() {
  const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  for (const name of fields) if (kept[name] !== undefined) at(name).value = kept[name];
  turns = kept.turns ?? [];
  for (const [mine, text] of turns) show(mine, text);
}

async function check() {
  const answer = await fetch("/v1/models", { headers: at("key").value ? { Authorization: `Bearer ${at("key").value}` } : {} });
  if (!answer.ok) return status(answer.status === 401 ? "a key is needed: see Settings" : answer.statusText, true);
  status((await answer.json()).data[0].id);
}

async function say(message) {
  const [you, they] = [at("you").value || "User", at("they").value || "Friend"];
  turns.push([true, message]);
  show(true, message);
  const said = turns.map(([mine, text]) => `${mine ? you : they}: ${text}`).join("\n");
  const line = show(false, "");
  running = new AbortController();
  at("send").textContent = "Stop";
  let text = "";
  try {
    const params = {
      n_predict: Number(at("tokens").value) || 200, stop: [`\n${you}:`, `\n${they}:`], overflow: "truncate",
    };
    const config = { controller: running, api_key: at("key").value || undefined };
    for await (const { data } of llama(`${at("before").value}\n\n${said}\n${they}:`, params, config)) {
      text += data.content;
      line.textContent = text.trimStart();
      line.scrollIntoView({ block: "end" });
    }
  } catch (error) {
    if (error.name !== "AbortError") status(error.message, true);
  }
  running = null;
  at("send").textContent = "Send";
  if (text.trim()) turns.push([false, text.trim()]);
  else line.remove();
  keep();
}

at("say").onsubmit = (event) => {
  event.preventDefault();
  if (running) return running.abort();
  const message = at("message").value.trim();
  if (!message) return;
  at("message").value = "";
  say(message);
};
at("message").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!running) at("say").requestSubmit();
  }
};
at("clear").onclick = () => {
  running?.abort();
  turns = [];
  at("talk").replaceChildren();
  keep();
};
at("key").value = sessionStorage.getItem("key") ?? "";
at("key").onchange = () => {
  sessionStorage.setItem("key", at("key").value);
  check();
};
for (const name of fields) at(name).onchange = keep;
recall();
check();
