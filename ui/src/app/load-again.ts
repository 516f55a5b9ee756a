const KEPT = "gantry.loaded-again";
/** A part that is lost again so soon is not there: another load would not bring it, and would go on forever. */
const SOON = 30_000;

/** Loads the page again if it has not done so a moment ago. Returns whether it does. */
export function loadAgain(now = Date.now()): boolean {
  try {
    const last = Number(sessionStorage.getItem(KEPT) ?? 0);
    if (now - last < SOON) return false;
    sessionStorage.setItem(KEPT, String(now));
  } catch {
    // Without a memory of the last load it might never end.
    return false;
  }
  location.reload();
  return true;
}
