/** Shown at most this often: nobody reads faster, and the machine has other work. */
const LEAST_MS = 32;
/** Drawing takes at most one part in `SHARE` of the time. */
const SHARE = 2;
const MOST_MS = 50;

/**
 * Draws what arrives in step with the screen. Drawing takes its time from what it cost before: a long answer is shown less often,
 * but at least 20 times a second. Hidden pages get no frames, so a timer draws there.
 */
export function pace(draw: () => void): { wake: () => void; end: () => void } {
  let waits = false;
  let ended = false;
  let last = 0;
  let cost = 0;
  const frame = () => {
    waits = false;
    if (ended) return;
    const began = performance.now();
    last = began;
    draw();
    // After layout and paint: a message is the first task behind them.
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      cost = performance.now() - began;
      port1.close();
    };
    port2.postMessage(null);
  };
  const wake = () => {
    if (waits || ended) return;
    waits = true;
    const due = last + Math.min(MOST_MS, Math.max(LEAST_MS, cost * SHARE)) - performance.now();
    const go = () => (document.hidden ? frame() : requestAnimationFrame(frame));
    if (due > 17) setTimeout(go, due - 8);
    else go();
  };
  return {
    wake,
    end: () => {
      ended = true;
    },
  };
}
