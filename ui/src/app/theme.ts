import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEPT = "gantry.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let theme: Theme = read();

function read(): Theme {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

// `public/theme.js` does the same before the first paint.
function show(): void {
  const dark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

system.addEventListener("change", show);

export function setTheme(to: Theme): void {
  theme = to;
  try {
    if (to === "system") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, to);
  } catch {
    // It lasts until the page is left, then.
  }
  show();
  for (const listener of listeners) listener();
}

/** The chosen theme; what is shown for "system" follows the system. */
export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
}
