// Shows /openapi.json: operations by tag, with parameters, bodies, answers and examples. No dependencies.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
let api = null;

/** An element; strings among the children become text, so nothing of the document is ever read as HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((it) => it !== null && it !== undefined));
  return element;
}

/** Text with `code` and paragraphs. */
function prose(text) {
  return (text || "").split(/\n\n+/).filter(Boolean).map((paragraph) => {
    const parts = paragraph.split("`");
    return make("p", {}, parts.map((part, at) => (at % 2 ? make("code", {}, part) : part)));
  });
}

/** Follows a reference within the document. */
function resolve(value) {
  let seen = value;
  while (seen && seen.$ref) {
    seen = seen.$ref.slice(2).split("/").reduce((at, key) => at[key], api);
  }
  return seen;
}

/** A type in a few words. */
function words(schema) {
  const name = schema.$ref ? schema.$ref.split("/").pop() : null;
  const it = resolve(schema) || {};
  const some = it.oneOf || it.anyOf;
  if (some) return (name ? `${name}: ` : "") + some.map(words).join(" or ");
  if (it.const !== undefined) return JSON.stringify(it.const);
  if (it.enum) return it.enum.map((one) => JSON.stringify(one)).join(", ");
  const type = [].concat(it.type || "anything").join(" or ");
  if (it.items) return `array of ${words(it.items)}`;
  return [name || type, it.format && `(${it.format})`].filter(Boolean).join(" ");
}

/** Bounds in a few words. */
function bounds(schema) {
  const it = resolve(schema) || {};
  const of = (label, low, high) => {
    if (low === undefined && high === undefined) return null;
    if (low !== undefined && high !== undefined) return `${label} ${low} to ${high}`;
    return low !== undefined ? `${label} from ${low}` : `${label} up to ${high}`;
  };
  return [
    of("", it.minimum, it.maximum),
    of("characters", it.minLength, it.maxLength),
    of("entries", it.minItems, it.maxItems),
    it.pattern && `matches ${it.pattern}`,
    it.default !== undefined && `default ${JSON.stringify(it.default)}`,
  ].filter(Boolean).map((one) => one.trim()).join("; ");
}

/** The fields of an object as a table; deeper objects inside of it. */
function fields(schema, depth = 0) {
  const it = resolve(schema) || {};
  const some = it.oneOf || it.anyOf || it.allOf;
  if (some && !it.properties) {
    const shown = some.filter((one) => (resolve(one) || {}).type !== "null");
    return shown.map((one) => {
      const name = one.$ref ? one.$ref.split("/").pop() : null;
      const inner = fields(one, depth);
      return inner && name ? make("details", {}, make("summary", {}, name), make("div", {}, inner)) : inner;
    });
  }
  if (it.items && depth < 4) return fields(it.items, depth);
  if (!it.properties || depth > 3) return null;
  const rows = Object.entries(it.properties).map(([name, field]) => make("tr", {},
    make("td", {}, make("code", {}, name), (it.required || []).includes(name) ? "" : make("span", { class: "quiet" }, " optional")),
    make("td", {}, words(field), make("div", { class: "quiet" }, bounds(field)),
      prose((resolve(field) || {}).description), field.$ref ? null : fields(field, depth + 1))));
  return make("table", {}, make("tbody", {}, rows));
}

/** A request as it was sent, and its answer. */
function example(recorded) {
  if (!recorded) return null;
  const { request, response } = recorded;
  const json = (value) => (value === null ? "" : `\n\n${JSON.stringify(value, null, 2)}`);
  return [make("h4", {}, "Example"), make("pre", {}, `${request.method} ${request.path}${json(request.body)}`),
    make("pre", {}, `${response.status}${json(response.body)}`)];
}

function contents(content) {
  return Object.entries(content || {}).map(([type, body]) => [
    make("p", {}, make("code", {}, type), " ", words(body.schema)), fields(body.schema),
  ]).flat();
}

function parameters(operation) {
  if (!operation.parameters.length) return null;
  const rows = operation.parameters.map((it) => make("tr", {},
    make("td", {}, make("code", {}, it.name), make("span", { class: "quiet" }, ` ${it.in}${it.required ? "" : ", optional"}`)),
    make("td", {}, words(it.schema), make("div", { class: "quiet" }, bounds(it.schema)), prose(it.description))));
  return [make("h4", {}, "Parameters"), make("table", {}, make("tbody", {}, rows))];
}

function answers(operation) {
  return Object.entries(operation.responses).map(([status, reference]) => {
    const response = resolve(reference);
    const bad = Number(status) >= 400;
    return make("tr", {}, make("td", {}, make("code", {}, status)),
      make("td", {}, prose(response.description), bad ? null : contents(response.content)));
  });
}

function show(path, method, operation) {
  const body = operation.requestBody;
  const entry = make("details", { id: operation.operationId },
    make("summary", {}, make("span", { class: "method" }, method.toUpperCase()), make("span", { class: "path" }, path),
      " ", make("h3", {}, operation.summary)),
    make("div", {}));
  // Filled when it is opened: some 70 operations with all their fields are much to lay out at once.
  entry.addEventListener("toggle", () => {
    const place = entry.lastElementChild;
    if (!entry.open || place.childElementCount) return;
    place.append(...[
      prose(operation.description), parameters(operation),
      body ? [make("h4", {}, "Body"), contents(body.content)] : null,
      make("h4", {}, "Answers"), make("table", {}, make("tbody", {}, answers(operation))),
      example(operation["x-gantry-example"]),
    ].flat(3).filter(Boolean));
  });
  return entry;
}

/** All words by which an operation is found. */
function haystack(path, method, operation) {
  const codes = Object.values(operation.responses).map((it) => it.$ref || "");
  return [method, path, operation.operationId, operation.summary, operation.description, operation.tags, codes,
    operation.parameters.map((it) => it.name)].flat().join(" ").toLowerCase();
}

function render() {
  document.getElementById("version").textContent = api.info.version;
  const content = document.getElementById("content");
  const index = document.getElementById("index");
  content.replaceChildren(...prose(api.info.description));
  const found = [];
  for (const tag of api.tags) {
    const heading = make("h2", {}, tag.name);
    const about = make("p", { class: "quiet" }, tag.description || "");
    const label = make("b", {}, tag.name);
    content.append(heading, about);
    index.append(label);
    const group = { parts: [heading, about, label], entries: [] };
    for (const [path, item] of Object.entries(api.paths)) {
      for (const method of METHODS.filter((it) => item[it] && item[it].tags[0] === tag.name)) {
        const entry = show(path, method, item[method]);
        const link = make("a", { href: `#${item[method].operationId}` }, item[method].summary);
        content.append(entry);
        index.append(link);
        group.entries.push({ text: haystack(path, method, item[method]), parts: [entry, link] });
      }
    }
    found.push(group);
  }
  const search = document.getElementById("search");
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const group of found) {
      let any = false;
      for (const entry of group.entries) {
        const fits = wanted.every((word) => entry.text.includes(word));
        entry.parts.forEach((part) => { part.hidden = !fits; });
        any = any || fits;
      }
      group.parts.forEach((part) => { part.hidden = !any; });
    }
  });
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
}

fetch("/openapi.json")
  .then((answer) => {
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  })
  .then((document_) => {
    api = document_;
    render();
  })
  .catch((error) => {
    document.getElementById("content").replaceChildren(make("p", { role: "alert" }, `The document can't be read: ${error.message}`));
  });
