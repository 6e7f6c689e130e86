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

export async function call(method, path, body) {
  const answer = await fetch(path, { method, headers: headers(), body: body && JSON.stringify(body) });
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new ApiError(answer.status, value.error?.message ?? value.error ?? answer.statusText);
  return value;
}

// Events of a request from number `after` on: yields [number, event] until the request is done.
export async function* follow(id, after, signal) {
  const answer = await fetch(`/srb/v1/requests/${id}/events?after=${after}`, { headers: headers(), signal });
  if (!answer.ok) throw new ApiError(answer.status, answer.statusText);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const frames = (waiting + value).split("\n\n");
    waiting = frames.pop();
    for (const frame of frames) {
      const fields = Object.fromEntries(frame.split("\n").map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]));
      if (fields.data) yield [Number(fields.id ?? 0), JSON.parse(fields.data)];
    }
  }
}
