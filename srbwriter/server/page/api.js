// The server's public API, as far as the page needs it.

const headers = () => {
  const key = sessionStorage.getItem("key");
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
};

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function refusal(answer) {
  const value = await answer.json().catch(() => ({}));
  return new ApiError(answer.status, value.error?.message ?? value.error ?? answer.statusText);
}

export async function call(method, path, body) {
  const answer = await fetch(path, { method, headers: headers(), body: body && JSON.stringify(body) });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

// The events of what follows a prompt, until all branches are done.
export async function* events(body, signal) {
  const answer = await fetch("/srb/v1/completions?rich=1", { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!answer.ok) throw await refusal(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (waiting + value).split("\n\n");
    waiting = frames.pop();
    for (const frame of frames) if (frame.startsWith("data: ")) yield JSON.parse(frame.slice(6));
  }
}
