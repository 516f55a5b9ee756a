import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { useMay } from "@/data/session";
import { PAGES } from "./pages";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

/** The keys that open the command menu, as they are written on this machine. */
export const COMMAND_KEYS = isMac ? "⌘K" : "Ctrl K";

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Listens to the shortcuts that work everywhere. While somebody types, or a dialog is open, letters are theirs. */
export function useShortcuts(open: (what: "commands" | "shortcuts") => void): void {
  const navigate = useNavigate();
  const may = useMay();
  useEffect(() => {
    let afterG = -Infinity;
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        return open("commands");
      }
      if (
        event.metaKey ||
        event.ctrlKey ||
        event.altKey ||
        isTyping(event.target) ||
        document.querySelector("[role=dialog],[role=menu]")
      )
        return;
      if (event.key === "?") return open("shortcuts");
      if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[data-page-search]");
        if (!search) return;
        event.preventDefault();
        search.focus();
        search.select();
        return;
      }
      if (event.key === "g") {
        afterG = event.timeStamp;
        return;
      }
      const page =
        event.timeStamp - afterG < 1500
          ? PAGES.find((it) => it.key === event.key && may(it.needs))
          : undefined;
      afterG = -Infinity;
      if (page) void navigate({ to: page.to });
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [navigate, may, open]);
}
