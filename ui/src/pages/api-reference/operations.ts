import type { ApiDocument, ApiOperation, ApiResponse, JsonSchema } from "@/data/openapi";

export type Operation = ApiOperation & { method: string; path: string };
export type Group = { tag: string; description: string | undefined; operations: Operation[] };

/** All operations by tag, in the order of the document. */
export function groupsOf(document: ApiDocument): Group[] {
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, it]) => ({ ...it, method: method.toUpperCase(), path })),
  );
  return document.tags.map(({ name, description }) => ({
    tag: name,
    description,
    operations: all.filter((it) => it.tags?.[0] === name),
  }));
}

/** Whether every word of a search is in an operation's name, path, summary or parameters. */
export function matches(operation: Operation, text: string): boolean {
  const names = operation.parameters?.map((it) => it.name).join(" ") ?? "";
  const { operationId, method, path, summary = "", tags = [] } = operation;
  const all = `${operationId} ${method} ${path} ${summary} ${tags.join(" ")} ${names}`.toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

const nameOf = (ref: string) => ref.split("/").at(-1) ?? ref;

/** The schema that a reference names, and the name. */
export function resolve(document: ApiDocument, schema: JsonSchema): { schema: JsonSchema; name?: string } {
  if (!schema.$ref) return { schema };
  const name = nameOf(schema.$ref);
  return { schema: document.components.schemas[name] ?? {}, name };
}

/** The answer that a reference names. */
export function resolveResponse(document: ApiDocument, response: ApiResponse): ApiResponse {
  if (!response.$ref) return response;
  return document.components.responses[nameOf(response.$ref)] ?? {};
}
