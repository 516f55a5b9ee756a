/** What came back, as far as it is shown. */
export type Tried = {
  status: number;
  ok: boolean;
  ms: number;
  requestId: string | null;
  total: string | null;
  text: string;
  cut: boolean;
};

/** The page shows no more than this of an answer. */
export const MOST = 200 * 1024;
/** A stream has no end of its own. */
const LONGEST_MS = 5000;

/** Writes the address of an operation: parameters in the path are filled in, and empty ones of the query left out. */
export function addressOf(
  path: string,
  inPath: Record<string, string>,
  query: Record<string, string>,
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(inPath[name] ?? ""));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== "") search.set(name, value);
  return search.size > 0 ? `${filled}?${search}` : filled;
}

const isStream = (type: string) => type.includes("event-stream") || type.includes("ndjson");

/** Sends a GET with the session and reads its answer; a large one to a limit, a stream for a few seconds. */
export async function tryGet(address: string, signal: AbortSignal): Promise<Tried> {
  const begun = performance.now();
  const response = await fetch(address, { signal, credentials: "same-origin" });
  const ms = Math.round(performance.now() - begun);
  const stream = isStream(response.headers.get("content-type") ?? "");
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  let cut = false;
  const end = setTimeout(() => stream && void reader?.cancel(), LONGEST_MS);
  try {
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      if (text.length <= MOST) continue;
      cut = true;
      text = text.slice(0, MOST);
      await reader.cancel();
      break;
    }
  } finally {
    clearTimeout(end);
  }
  return {
    status: response.status,
    ok: response.ok,
    ms,
    requestId: response.headers.get("x-request-id"),
    total: response.headers.get("x-total-count"),
    text: cut || stream ? text : pretty(text),
    cut,
  };
}

/** JSON with line breaks; anything else as it is. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
