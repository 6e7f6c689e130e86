// llama.cpp's helper for pages: one prompt, streamed.
//
//   import { llama } from "/completion.js";
//   for await (const chunk of llama("Once upon a time,", { n_predict: 32 })) show(chunk.data.content);
//
// `params` are the fields of POST /completion; `config` may hold api_url, api_key and an AbortController
// as `controller`. The generator returns the whole text of branch 0.

export async function* llama(prompt, params = {}, config = {}) {
  const controller = config.controller ?? new AbortController();
  const answer = await fetch(`${(config.api_url ?? "").replace(/\/+$/, "")}/completion`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "text/event-stream",
      ...((config.api_key ?? params.api_key) ? { Authorization: `Bearer ${config.api_key ?? params.api_key}` } : {}),
    },
    body: JSON.stringify({ ...params, api_key: undefined, prompt, stream: true }),
    signal: controller.signal,
  });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "", content = "", ended = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) { ended = true; return content; }
      const frames = (waiting + value).split("\n\n");
      waiting = frames.pop();
      for (const frame of frames) {
        if (!frame.startsWith("data: ")) continue; // a comment that keeps the connection open
        const data = JSON.parse(frame.slice(6));
        if (data.error) throw new Error(data.error.message);
        if (!data.index) content += data.content;
        yield { data };
      }
    }
  } finally {
    if (!ended) controller.abort(); // whoever leaves the loop stops the server
  }
}

// The same with a function that is called with each chunk: `params` hold the prompt, `controller` may be left out.
export async function llamaComplete(params, controller, callback) {
  for await (const chunk of llama(params.prompt, params, { controller })) callback(chunk);
}
