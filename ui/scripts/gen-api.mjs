// Writes src/api/schema.d.ts and src/api/operations.ts from ../openapi.json. `--check` fails if they are stale.
//
// The common generator needs an older TypeScript beside ours; our document uses few words of JSON Schema, so these lines do.
import { readFileSync, writeFileSync } from "node:fs";

const at = (path) => new URL(path, import.meta.url);
const document = JSON.parse(readFileSync(at("../../openapi.json"), "utf8"));

const name = (ref) => ref.split("/").at(-1);
const key = (text) => (/^[A-Za-z_$][\w$]*$/.test(text) ? text : JSON.stringify(text));
const union = (parts) => [...new Set(parts)].join(" | ") || "never";
const paren = (text) => (text.includes(" | ") || text.includes(" & ") ? `(${text})` : text);

function comment(text, indent) {
  if (!text) return "";
  const lines = text.trim().replaceAll("*/", "*\\/").split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

function object(schema, indent) {
  const deeper = `${indent}  `;
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {}).map(([field, of]) => {
    const mark = required.has(field) ? "" : "?";
    return `${comment(of.description, deeper)}${deeper}${key(field)}${mark}: ${type(of, deeper)};\n`;
  });
  const more = schema.additionalProperties;
  if (fields.length === 0)
    return more === false
      ? "Record<string, never>"
      : `Record<string, ${typeof more === "object" ? type(more, indent) : "unknown"}>`;
  if (more !== false && more !== undefined) fields.push(`${deeper}[key: string]: unknown;\n`);
  return `{\n${fields.join("")}${indent}}`;
}

function plain(kind, schema, indent) {
  if (kind === "array") return `${paren(schema.items ? type(schema.items, indent) : "unknown")}[]`;
  if (kind === "object") return object(schema, indent);
  if (kind === "integer" || kind === "number") return "number";
  return kind;
}

/** The TypeScript type of a schema. */
function type(schema, indent = "") {
  if (schema === undefined || schema === true) return "unknown";
  if (schema.$ref) return `Schemas["${name(schema.$ref)}"]`;
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((word) => JSON.stringify(word)));
  const choices = schema.oneOf ?? schema.anyOf;
  // With properties beside it, `anyOf` says which of them go together; types do not follow that.
  if (choices && !schema.properties) return union(choices.map((it) => type(it, indent)));
  const kinds = [schema.type ?? (schema.properties ? "object" : "unknown")].flat();
  return union(kinds.map((kind) => plain(kind, schema, indent)));
}

const BODIES = ["application/json", "multipart/form-data"];

function answer(operation) {
  const parts = Object.entries(operation.responses)
    .filter(([status]) => status.startsWith("2"))
    .map(([, it]) => it.content?.["application/json"])
    .filter(Boolean);
  return union(parts.map((it) => type(it.schema, "    "))).replace(/^never$/, "unknown");
}

function parameters(operation, place) {
  const found = (operation.parameters ?? []).filter((it) => it.in === place);
  if (found.length === 0) return "undefined";
  const properties = Object.fromEntries(
    found.map((it) => [it.name, { ...it.schema, description: it.description }]),
  );
  const required = found.filter((it) => it.required).map((it) => it.name);
  return object({ properties, required, additionalProperties: false }, "    ");
}

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, it]) => ({ path, method: method.toUpperCase(), ...it })),
);

const HEAD = "// Written by scripts/gen-api.mjs from openapi.json. Do not edit.\n\n";

function schemaFile() {
  let text = `${HEAD}export interface Schemas {\n`;
  for (const [word, schema] of Object.entries(document.components.schemas)) {
    text += `${comment(schema.description, "  ")}  ${word}: ${type(schema, "  ")};\n`;
  }
  text +=
    "}\n\n/** The data of each event of `GET /admin/events` and `GET /auth/events`. */\nexport interface LiveEvents {\n";
  const { Event, OwnEvent } = document.components.schemas;
  for (const rule of [...Event.allOf, ...OwnEvent.allOf]) {
    text += `  ${rule.if.properties.event.const}: ${type(rule.then.properties.data.contentSchema, "  ")};\n`;
  }
  text += "}\n\nexport interface Operations {\n";
  for (const it of operations) {
    const content = it.requestBody?.content ?? {};
    const body = BODIES.map((kind) => content[kind]).find(Boolean);
    text += `${comment(it.summary, "  ")}  ${it.operationId}: {\n`;
    text += `    path: ${parameters(it, "path")};\n    query: ${parameters(it, "query")};\n`;
    text += `    body: ${body ? type(body.schema, "    ") : "undefined"};\n    answer: ${answer(it)};\n  };\n`;
  }
  return `${text}}\n`;
}

function operationsFile() {
  let text = `${HEAD}/** What each operation is called with, and who may call it; \`null\`: everybody. */\nexport const operations = {\n`;
  for (const it of operations) {
    const role = JSON.stringify(it["x-gantry-role"] ?? null);
    const scope = JSON.stringify(it["x-gantry-scope"] ?? null);
    text += `  ${it.operationId}: { method: "${it.method}", path: "${it.path}", role: ${role}, scope: ${scope} },\n`;
  }
  return `${text}} as const;\n`;
}

const files = [
  ["../src/api/schema.d.ts", schemaFile()],
  ["../src/api/operations.ts", operationsFile()],
];
for (const [path, text] of files) {
  if (process.argv.includes("--check")) {
    if (readFileSync(at(path), "utf8") !== text) throw new Error(`${path} is stale: run npm run gen`);
  } else {
    writeFileSync(at(path), text);
  }
}
