// A conversation in the terminal: node chat.mjs

import readline from "node:readline/promises";
import { completion } from "./completion.js";

const url = process.env.SRBWRITER_URL ?? "http://127.0.0.1:9090";
const key = process.env.SRBWRITER_KEY;
const messages = [];
const lines = readline.createInterface({ input: process.stdin });

process.stdout.write("> ");
for await (const line of lines) {
  messages.push({ role: "user", content: line });
  const { prompt, error } = await (await fetch(`${url}/apply-template`, {
    method: "POST",
    headers: key ? { Authorization: `Bearer ${key}` } : {},
    body: JSON.stringify({ messages }),
  })).json();
  if (error) throw new Error(error.message);
  let reply = "";
  for await (const chunk of completion(prompt, { n_predict: 256, stop: ["<|im_end|>"] }, url, { key })) {
    reply += chunk.content;
    process.stdout.write(chunk.content);
  }
  messages.push({ role: "assistant", content: reply });
  process.stdout.write("\n> ");
}
