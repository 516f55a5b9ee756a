import { ApiError, errorOf, isAbort, NetworkError } from "./errors";
import { operations } from "./operations";
import type { Operations } from "./schema";
import type { Answer, OperationId } from "./types";

// In brackets, so that a union (the forms of two engines) stays one type.
type Given<Name extends string, T> = [T] extends [undefined]
  ? { [N in Name]?: undefined }
  : [Record<string, never>] extends [T]
    ? { [N in Name]?: T }
    : { [N in Name]: T };

/** What is sent with a call: path and query parameters, and a body, each typed by the operation. */
export type Options<K extends OperationId> = Given<"path", Operations[K]["path"]> &
  Given<"query", Operations[K]["query"]> &
  Given<"body", Operations[K]["body"]> & { signal?: AbortSignal; headers?: Record<string, string> };

// `{}` fits if nothing is required: then the options may be left out.
type Arguments<K extends OperationId> =
  Record<string, never> extends Options<K> ? [Options<K>?] : [Options<K>];

type Sent = {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** Whoever calls finds out by other means whether the gateway is lost. */
  quiet?: boolean;
};

/** A page of a list, with the number of entries that the whole list has. */
export type Page<T> = { items: T[]; total: number };

type Watcher = { signedOut: () => void; forbidden: () => void; answered: () => void; lost: () => void };
const nobody: Watcher = { signedOut() {}, forbidden() {}, answered() {}, lost() {} };
let watcher = nobody;

/** Sets who hears that the session ended (401), that the role does not allow something (403), and that the gateway answers or is lost. The application has one. */
export function watchCalls(of: Partial<Watcher>): void {
  watcher = { ...nobody, ...of };
}

/** Returns the address of an operation with its parameters. */
export function urlOf(id: OperationId, { path = {}, query = {} }: Pick<Sent, "path" | "query"> = {}): string {
  const filled = operations[id].path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(path[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    search.append(name, String(value));
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

/** The header by which a change is refused (412) if somebody changed the record after this revision. */
export function ifMatch(revision: string | undefined): Record<string, string> {
  return revision === undefined ? {} : { "if-match": `"${revision}"` };
}

/**
 * Sends a request and returns the answer if it is 2xx. The session is a `SameSite=Strict` cookie, and the gateway refuses
 * what another site's page sends by `Sec-Fetch-Site` and `Origin`, which the browser adds: no token is needed here.
 */
export async function send(id: OperationId, sent: Sent = {}): Promise<Response> {
  const headers = new Headers(sent.headers);
  const form = sent.body instanceof FormData;
  if (sent.body !== undefined && !form) headers.set("content-type", "application/json");
  let response: Response;
  try {
    response = await fetch(urlOf(id, sent), {
      method: operations[id].method,
      headers,
      body: sent.body === undefined ? undefined : form ? (sent.body as FormData) : JSON.stringify(sent.body),
      signal: sent.signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    if (!sent.quiet) watcher.lost();
    throw new NetworkError(String(error));
  }
  if (response.ok) {
    watcher.answered();
    return response;
  }
  const error = await errorOf(response);
  // A proxy answers these without a code of ours when the gateway behind it is gone.
  if ([502, 503, 504].includes(response.status) && error.code === "unknown") {
    if (!sent.quiet) watcher.lost();
    throw new NetworkError(error.message);
  }
  watcher.answered();
  if (error.code === "unauthenticated") watcher.signedOut();
  if (error.code === "forbidden") watcher.forbidden();
  throw error;
}

async function json(response: Response): Promise<unknown> {
  try {
    return response.status === 204 ? undefined : await response.json();
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new NetworkError(String(error));
  }
}

/** Calls an operation and returns its answer: `call("getModel", { path: { id } })`. Throws `ApiError` or `NetworkError`. */
export async function call<K extends OperationId>(id: K, ...[options]: Arguments<K>): Promise<Answer<K>> {
  return (await json(await send(id, options as Sent | undefined))) as Answer<K>;
}

/** Calls an operation that answers a list, and returns the entries with the number of all (`X-Total-Count`). */
export async function callPage<K extends OperationId>(
  id: K,
  ...[options]: Arguments<K>
): Promise<Page<Answer<K> extends (infer T)[] ? T : never>> {
  const response = await send(id, options as Sent | undefined);
  const items = await json(response);
  if (!Array.isArray(items)) throw new ApiError(response.status, { message: `${id} did not answer a list` });
  const total = Number(response.headers.get("x-total-count") ?? items.length);
  return { items, total } as Page<Answer<K> extends (infer T)[] ? T : never>;
}
