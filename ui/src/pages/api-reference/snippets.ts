import type { Snippet } from "@/kit/code-block";
import type { Operation } from "./operations";

/** What stands in place of a key or token in a snippet; shells and programs read it from the environment. */
const KEY = "GANTRY_API_KEY";
const TOKEN = "GANTRY_TOKEN";

/** The name of the secret that an operation takes; `null` where nobody need sign in. */
export function secretOf(operation: Pick<Operation, "path" | "x-gantry-role">): string | null {
  if (!operation["x-gantry-role"]) return null;
  return operation.path.startsWith("/admin") || operation.path.startsWith("/auth") ? TOKEN : KEY;
}

const indented = (text: string, by: string) => text.replaceAll("\n", `\n${by}`);

/** JSON as Python writes it. */
export function python(value: unknown, indent = ""): string {
  const deeper = `${indent}    `;
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((it) => `${deeper}${python(it, deeper)},\n`).join("")}${indent}]`;
  }
  if (typeof value === "object") {
    const fields = Object.entries(value);
    if (fields.length === 0) return "{}";
    return `{\n${fields.map(([name, it]) => `${deeper}${JSON.stringify(name)}: ${python(it, deeper)},\n`).join("")}${indent}}`;
  }
  return JSON.stringify(value);
}

/** How an operation is called from a shell, from Python and from JavaScript, with its example's path and body. */
export function snippetsOf(operation: Operation, base: string): Snippet[] {
  const example = operation["x-gantry-example"]?.request;
  const url = base + (example?.path ?? operation.path);
  const { method } = operation;
  // The examples of operations without a body have `null` there.
  const body = example?.body ?? undefined;
  const secret = secretOf(operation);
  const json = body === undefined ? "" : JSON.stringify(body, null, 2);
  const curl = [
    method === "GET" ? `curl '${url}'` : `curl -X ${method} '${url}'`,
    ...(secret ? [`-H "Authorization: Bearer $${secret}"`] : []),
    ...(json ? ["-H 'Content-Type: application/json'", `-d '${json.replaceAll("'", `'\\''`)}'`] : []),
  ].join(" \\\n  ");
  const inPython = [
    `import os\nimport requests\n`,
    `answer = requests.request(\n    "${method}",\n    ${JSON.stringify(url)},`,
    ...(secret ? [`    headers={"Authorization": "Bearer " + os.environ["${secret}"]},`] : []),
    ...(json ? [`    json=${python(body, "    ")},`] : []),
    `)\nanswer.raise_for_status()\nprint(answer.text)`,
  ].join("\n");
  const headers = [
    ...(secret ? [`Authorization: \`Bearer \${process.env.${secret}}\``] : []),
    ...(json ? [`"Content-Type": "application/json"`] : []),
  ];
  const javascript = [
    `const answer = await fetch(${JSON.stringify(url)}, {`,
    `  method: "${method}",`,
    ...(headers.length > 0 ? [`  headers: { ${headers.join(", ")} },`] : []),
    ...(json ? [`  body: JSON.stringify(${indented(json, "  ")}),`] : []),
    "});",
    "if (!answer.ok) throw new Error(await answer.text());",
    "console.log(await answer.text());",
  ].join("\n");
  return [
    { id: "curl", label: "curl", code: curl },
    { id: "python", label: "Python", code: inPython },
    { id: "javascript", label: "JavaScript", code: javascript },
  ];
}
