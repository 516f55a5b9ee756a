const isHidden = () => document.visibilityState === "hidden";

function untilShown(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const look = () => {
      if (isHidden() && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

/**
 * Does `work` while the tab is in sight, and anew whenever it comes back into sight: what holds a connection must not keep it from
 * the tabs that are looked at. Returns when `work` has ended by itself.
 */
export async function whileVisible(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    await untilShown(signal);
    if (signal.aborted) return;
    const hidden = new AbortController();
    const look = () => {
      if (isHidden()) hidden.abort();
    };
    document.addEventListener("visibilitychange", look);
    try {
      await work(AbortSignal.any([signal, hidden.signal]));
    } finally {
      document.removeEventListener("visibilitychange", look);
    }
    if (!hidden.signal.aborted) return;
  }
}
