import { useSyncExternalStore } from "react";

let out = false;
const listeners = new Set<() => void>();

/** Says that the session ended, or that there is one again. */
export function signedOut(to: boolean): void {
  if (out === to) return;
  out = to;
  for (const listener of listeners) listener();
}

/** Whether the session ended while pages are open. */
export function useSignedOut(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => out,
  );
}
