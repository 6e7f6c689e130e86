// What a writer does beside writing: look ahead, see what is not shown, go token by token.
// Knows requests and panes by what write.js hands it; changes the story only through that.

import { call, follow } from "/page/api.js";

const $ = (id) => document.getElementById(id);
const BUDGET = 2048; // tokens a round that are written ahead
const lines = (id) => $(id).value.split("\n").map((line) => line.trim()).filter(Boolean);
const percent = (share) => `${(100 * share).toPrecision(share < 0.1 ? 1 : 2)} %`;

export function settings() {
  return {
    ...($("siblings").value ? { siblings: $("siblings").value } : {}),
    ...(Number($("repulsion").value) ? { repulsion: Number($("repulsion").value) } : {}),
    ...(lines("banned").length ? { banned_phrases: lines("banned") } : {}),
  };
}

export function button(text, act, title = "") {
  return Object.assign(document.createElement("button"), { type: "button", textContent: text, onclick: act, title });
}

export function mark(pane, name, text) {
  const marks = pane.querySelector(".marks");
  const own = marks.querySelector(`.${name}`) ?? marks.appendChild(Object.assign(document.createElement("span"), { className: name }));
  own.textContent = text;
}

// ---- ahead of picks: what would be asked for after a pick, as it was asked for, and its answer

let ready = new Map();
let looking = new AbortController();

export async function lookAhead(request, panes, focused, asked) {
  forget();
  const stop = looking, indices = panes.map((pane) => pane.index).sort((one, other) => (other === focused) - (one === focused));
  let spent = 0;
  for (const index of { focused: indices.slice(0, 1), all: indices }[$("ahead").value] ?? []) {
    const body = asked({ request: request.id, branch: index });
    const made = await call("POST", "/srb/v1/requests", { ...body, priority: "ahead" });
    if (stop.signal.aborted) return void call("DELETE", `/srb/v1/requests/${made.id}`).catch(() => {});
    ready.set(JSON.stringify(body), made);
    for await (const [, event] of follow(made.id, 0, stop.signal)) {
      if (event.event !== "done") continue;
      mark(panes.find((pane) => pane.index === index), "ahead", "»");
      spent += event.completion_tokens;
    }
    if (spent >= BUDGET) return;
  }
}

// The round that was written ahead for exactly this body; whatever else was written goes.
export function forget(body) {
  looking.abort();
  looking = new AbortController();
  const found = body && ready.get(JSON.stringify(body));
  for (const made of ready.values()) if (made !== found) call("DELETE", `/srb/v1/requests/${made.id}`).catch(() => {});
  ready = new Map();
  document.querySelectorAll(".marks .ahead").forEach((sign) => sign.remove());
  return found;
}

// ---- what the branches do not show

export async function tellUnexplored(request, open) {
  const fork = await call("GET", `/srb/v1/requests/${request.id}/unexplored`);
  const rest = fork.openings.filter((opening) => !opening.branches.length).slice(0, 6);
  $("shown").replaceChildren(`The branches show ${percent(fork.covered)} of what could follow. Not shown: `,
    ...rest.map((opening) => button(`${opening.text.trim() || "⏎"} ${percent(opening.probability)}`, () => open(opening.id), "Let a branch begin with it")));
}

// ---- token by token

// Shows the tokens of an ended branch; `fork` is called with the place, the text before it, and what stands there.
export async function tokens(request, pane, fork) {
  const list = pane.querySelector(".tokens");
  if (list) return list.remove();
  const told = (await call("POST", `/srb/v1/requests/${request.id}/branches/${pane.index}/tokens`, { k: 6 })).tokens;
  const from = (place) => told.slice(place).map(({ text }) => text).join("");
  // The first tokens may write the prompt's end again; what the pane shows begins inside one of them.
  let again = from(0).length - pane.text.length;
  while (told.length && again >= told[0].text.length) again -= told.shift().text.length;
  if (told.length && again > 0) told[0] = { ...told[0], text: told[0].text.slice(again) };
  while (told.length && !pane.text.endsWith(from(0))) told.shift();
  const shown = Object.assign(document.createElement("div"), { className: "tokens" });
  const others = document.createElement("p");
  shown.append(...told.map((token, place) => {
    const one = button(token.text || "·", () => {
      const before = pane.text.slice(0, pane.text.length - from(place).length);
      others.replaceChildren(
        ...token.alternatives.filter(({ id }) => id !== token.id).map((other) =>
          button(`${other.text.trim() || "⏎"} ${percent(Math.exp(other.logprob))}`, () => fork(before, { at: token.at, token: other.id }), "Write on with it")),
        button("without it", () => fork(before, { at: token.at, without: [token.id] }), "Write on from here without this token"));
    }, percent(Math.exp(token.logprob)));
    one.style.setProperty("--share", Math.exp(token.logprob));
    return one;
  }), others);
  pane.querySelector(".text").after(shown);
}
