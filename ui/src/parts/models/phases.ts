import type { Item, ModelState } from "@/api/types";

/** What a start goes through. */
export const PHASES = ["image", "container", "weights", "warmUp", "ready"] as const;
export type Phase = (typeof PHASES)[number];

// What engines write once the weights are loaded: they measure memory, capture graphs and run empty.
const WARM_UP =
  /warming up|warmup|Capturing CUDA graph|Graph capturing|init engine \(profile|Model loading took|# GPU blocks|GPU KV cache size/i;

/** Returns the phase of a start. Only what the gateway or the engine's log says decides. */
export function phaseOf(state: ModelState, pulling: boolean, lines: string[]): Phase {
  if (state === "running") return "ready";
  if (pulling) return "image";
  if (state === "starting") return "container";
  return lines.some((it) => WARM_UP.test(it)) ? "warmUp" : "weights";
}

/** Returns how much of the weights is loaded, from 0 to 1, if the engine writes it; else `null`. */
export function loadedShare(lines: string[]): number | null {
  for (const line of lines.toReversed()) {
    const percent = /checkpoint shards:\s+(\d{1,3})%/.exec(line)?.[1];
    if (percent !== undefined) return Math.min(1, Number(percent) / 100);
  }
  return null;
}

/** How long the newest starts took that got ready, in milliseconds. */
export type Learned = { starting: number; loading: number; starts: number };

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

/** Returns how long starts of this model take: the medians of the newest five that got ready. `null` if none did. */
export function learnedFrom(events: Item<"listModelEvents">[]): Learned | null {
  const starting: number[] = [];
  const loading: number[] = [];
  events.forEach((event, index) => {
    if (event.to !== "running" || event.from !== "loading" || event.duration_ms === null) return;
    if (loading.length === 5) return;
    loading.push(event.duration_ms);
    const before = events[index + 1];
    if (before?.to === "loading" && before.from === "starting" && before.duration_ms !== null)
      starting.push(before.duration_ms);
  });
  if (loading.length === 0) return null;
  return { starting: median(starting), loading: median(loading), starts: loading.length };
}

const ESCAPES = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]*[ -/]*[@-~]`, "g");

/** Returns a line of a log as it is read: without colours, and without what a carriage return wrote over. */
export function plainLine(line: string): string {
  const plain = line.replace(ESCAPES, "").replace(/\r+$/, "");
  return plain.slice(plain.lastIndexOf("\r") + 1);
}

/** Returns the lines of a log. */
export function linesOf(log: string): string[] {
  const lines = log.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map(plainLine);
}
