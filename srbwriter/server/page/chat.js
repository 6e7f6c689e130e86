// A conversation over POST /generate. The whole of it is sent each time: the server has read its beginning before.

const at = (id) => document.getElementById(id);
const KEPT = "srbwriter-chat";
const fields = ["you", "they", "before", "tokens"];
let turns = [], running = null;

const headers = () => ({
  "Content-Type": "application/json",
  ...(at("key").value ? { Authorization: `Bearer ${at("key").value}` } : {}),
});

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
  const answer = await fetch("/check", { headers: headers() });
  if (!answer.ok) return status(answer.status === 401 ? "a key is needed: see Settings" : answer.statusText, true);
  status((await answer.json())[0]);
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
    const answer = await fetch("/generate", {
      method: "POST",
      headers: headers(),
      signal: running.signal,
      body: JSON.stringify({
        message: said, prompt: `${at("before").value}\n\n{user_input}\n${they}:`,
        max_new_tokens: Number(at("tokens").value) || 200, stop: [`\n${you}:`, `\n${they}:`],
      }),
    });
    if (!answer.ok) {
      const { error } = await answer.json();
      throw new Error(error.message);
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      text += piece.value;
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
