// The API's description as a page: what every endpoint takes, and a form to try it.

const api = await (await fetch("/openapi.json")).json();
const docs = document.getElementById("docs");
const template = document.getElementById("operation");
document.getElementById("status").textContent = `${api.info.title} ${api.info.version}`;

function headers() {
  const key = sessionStorage.getItem("key");
  return key ? { Authorization: `Bearer ${key}` } : {};
}

const listed = await fetch("/v1/models", { headers: headers() });
const model = listed.ok ? (await listed.json()).data[0].id : "any"; // a list that wants a key

const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

function kind(schema) {
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.oneOf) return schema.oneOf.map(kind).join(" or ");
  return schema.type ?? "any";
}

function row(name, schema, note) {
  const line = document.createElement("tr");
  const low = schema.minimum !== undefined || schema.maximum !== undefined ? ` ${schema.minimum ?? "…"} to ${schema.maximum ?? "…"}` : "";
  line.append(element("td", name), element("td", kind(schema) + low), element("td", note ?? schema.description ?? ""));
  return line;
}

function example(schema) {
  if (schema.example) return JSON.stringify(schema.example, null, 1);
  const fields = (schema.required ?? Object.keys(schema.properties ?? {}).slice(0, 3)).map((name) => {
    const field = schema.properties[name];
    if (name === "model") return [name, model];
    if (name === "messages") return [name, [{ role: "user", content: "Tell me a story." }]];
    return [name, { string: "Once upon a time,", integer: 1, number: 1, boolean: true, array: [1], object: {} }[field.type] ?? "Once upon a time,"];
  });
  return JSON.stringify(Object.fromEntries(fields), null, 1);
}

function show(path, method, operation) {
  const node = template.content.firstElementChild.cloneNode(true);
  const part = (name) => node.querySelector(`.${name}`);
  const schema = operation.requestBody?.content["application/json"].schema;
  part("method").textContent = method.toUpperCase();
  part("path").textContent = path;
  part("about").textContent = operation.summary;
  part("target").value = path;
  part("fields").append(...operation.parameters.map((p) => row(p.name, p.schema, `in the ${p.in}`)),
    ...Object.entries(schema?.properties ?? {}).map(([name, field]) => row(name, field)));
  if (schema) part("body").value = example(schema);
  else part("body").remove();
  const flags = method === "get" || schema ? "" : `-X ${method.toUpperCase()} `;
  const body = schema ? ` -d '${JSON.stringify(JSON.parse(example(schema))).replaceAll("'", "'\\''")}'` : "";
  part("curl").textContent = `curl ${flags}'${location.origin}${path}'${body}`;
  node.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    const answer = part("answer");
    answer.hidden = false;
    answer.textContent = "";
    const response = await fetch(part("target").value, {
      method: method.toUpperCase(),
      headers: { "Content-Type": "application/json", ...headers() },
      body: schema ? part("body").value : undefined,
    });
    answer.textContent = `${response.status} ${response.statusText}\n\n`;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) answer.append(piece.value);
  };
  return node;
}

for (const { name } of api.tags) {
  docs.append(element("h2", name));
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (operation.tags.includes(name)) docs.append(show(path, method, operation));
    }
  }
}
