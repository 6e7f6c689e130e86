// One prompt, streamed: works in browsers and in Node.
//
//   for await (const chunk of completion("Once upon a time,", { n_predict: 32 })) show(chunk.content);
//
// `params` are the fields of POST /completion. With n > 1 every chunk says in `index` which branch it is
// of. Leave the loop, or abort `signal`, and the server stops writing.

export async function* completion(prompt, params = {}, url = "http://127.0.0.1:9090", { key, signal } = {}) {
  const answer = await fetch(`${url}/completion`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({ ...params, prompt, stream: true }),
    signal,
  });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  let waiting = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const frames = (waiting + piece).split("\n\n");
    waiting = frames.pop();
    for (const frame of frames) {
      if (!frame.startsWith("data: ")) continue; // a comment that keeps the connection open
      const chunk = JSON.parse(frame.slice(6));
      if (chunk.error) throw new Error(chunk.error.message);
      yield chunk;
    }
  }
}
