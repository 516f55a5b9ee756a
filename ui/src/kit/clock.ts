import { useSyncExternalStore } from "react";

let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const it of listeners) it();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function read(): number {
  // Nobody listened for a while: the time stood still.
  const time = Date.now();
  // The same answer for a while, as React reads it twice in a row.
  if (!timer && time - now >= 1000) now = time;
  return now;
}

const minute = () => Math.floor(read() / 60_000) * 60_000;

/** The time in milliseconds, which ticks every second. All readers tick together. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, read);
}

/** The time to the minute, for what need not tick. */
export function useMinute(): number {
  return useSyncExternalStore(subscribe, minute);
}
