import { useEffect } from "react";
import { NetworkError } from "@/api/errors";

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;

/** The last pause, and when it began: what fails again soon after it is the same trouble. */
let wait = 0;
let since = 0;

function nextWait(now = Date.now()): number {
  wait = now - since < wait + LONGEST_WAIT ? Math.min(wait * 2, LONGEST_WAIT) : FIRST_WAIT;
  since = now;
  return wait;
}

/**
 * Asks again for what a page needs before the shell is there, which tells of a lost gateway: after pauses that grow, for as long as it
 * takes, and at once when the network is back.
 */
export function useAskedAgain(error: unknown, again: () => void): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each error
  useEffect(() => {
    if (!(error instanceof NetworkError)) return;
    const timer = setTimeout(again, nextWait());
    window.addEventListener("online", again);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("online", again);
    };
  }, [error]);
}
