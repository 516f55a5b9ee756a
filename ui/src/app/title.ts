import { useEffect, useSyncExternalStore } from "react";
import type { ModelState } from "@/api/types";
import { useModels } from "@/data/models";
import { useMay } from "@/data/session";
import { onPageTitle, pageTitle } from "@/kit/page-title";

type Worst = "failed" | "busy" | "fine";

/** Returns what is worst among the states of all models. */
export function worstOf(states: ModelState[]): Worst {
  if (states.includes("failed")) return "failed";
  return states.some((it) => it === "starting" || it === "loading" || it === "stopping") ? "busy" : "fine";
}

const SIGN: Record<Worst, string> = { failed: "▲ ", busy: "◐ ", fine: "" };

/** Adds the state to the icon: its shape says it, too. */
function icon(worst: Worst): string {
  const marks: Record<Worst, string> = {
    failed: '<path d="M22 17l9 15H13z" fill="#cf3333" stroke="#fff" stroke-width="1.5"/>',
    busy: '<circle cx="24" cy="24" r="6.5" fill="#fff"/><path d="M24 17.5a6.5 6.5 0 0 1 0 13z" fill="#2b6fce"/>',
    fine: "",
  };
  const gantry =
    '<path d="M7 24V10h18v14M7 14h18M16 14v5m-3 0h6v4h-6z" fill="none" stroke="#fff" stroke-width="2.4" stroke-linejoin="round"/>';
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0b6e75"/>${gantry}${marks[worst]}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

/** Keeps the title and the icon of the window: the page, and the worst state of a model. */
export function useTitle(): void {
  const page = useSyncExternalStore(onPageTitle, pageTitle);
  const { data } = useModels({ enabled: useMay()("listModels") });
  const worst = worstOf((data ?? []).map((it) => it.state));
  useEffect(() => {
    document.title = `${SIGN[worst]}${page ? `${page} · ` : ""}Gantry`;
  }, [page, worst]);
  useEffect(() => {
    document.querySelector<HTMLLinkElement>("link[rel=icon]")?.setAttribute("href", icon(worst));
  }, [worst]);
}
