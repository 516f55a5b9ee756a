import { type RefObject, useCallback, useRef } from "react";

/** More would be kept in memory for nothing: a few steps back something is still there. */
const KEPT = 20;
/** What had the focus, the newest last. */
const trail: HTMLElement[] = [];

document.addEventListener("focusin", ({ target }) => {
  if (!(target instanceof HTMLElement) || target.matches("[data-base-ui-focus-guard]")) return;
  trail.push(target);
  if (trail.length > KEPT) trail.shift();
});

/**
 * Says where the focus goes when a dialog closes: to the newest of what had it before that is still there, else to the content of
 * the page. What opened a dialog may be gone: a form that made the dialog's record, or a button that has done its work.
 */
export function useFocusBack(): [RefObject<HTMLDivElement | null>, () => HTMLElement | null] {
  const dialog = useRef<HTMLDivElement>(null);
  const find = useCallback(() => {
    const usable = (it: HTMLElement) =>
      it.isConnected && !it.matches(":disabled, [tabindex='-1']") && !dialog.current?.contains(it);
    return trail.findLast(usable) ?? document.getElementById("content");
  }, []);
  return [dialog, find];
}
