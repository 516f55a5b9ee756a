import { X } from "lucide-react";
import { useEffect, useSyncExternalStore } from "react";
import { useT } from "@/i18n";
import { StateShape, type Tone } from "./badge";
import { IconButton } from "./button";
import { describe, RequestId } from "./error-state";

type Toast = { id: number; tone: Tone; text: string; error?: unknown };

let toasts: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function set(to: Toast[]): void {
  toasts = to;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const drop = (id: number) => set(toasts.filter((it) => it.id !== id));

/** Says shortly that something was done, for six seconds. */
export function toast(text: string, tone: Tone = "ok"): void {
  last += 1;
  set([...toasts.slice(-3), { id: last, tone, text }]);
}

/** Says that an action failed which has no place of its own for that; it stays until it is dismissed. */
export function toastError(error: unknown, text = ""): void {
  last += 1;
  set([...toasts.slice(-3), { id: last, tone: "bad", text, error }]);
}

function Note({ toast: { id, tone, text, error } }: { toast: Toast }) {
  const t = useT();
  useEffect(() => {
    if (error !== undefined) return;
    const timer = setTimeout(() => drop(id), 6000);
    return () => clearTimeout(timer);
  }, [id, error]);
  const said = error === undefined ? undefined : describe(error, t);
  return (
    <li className="flex items-start gap-2.5 rounded-lg border border-line bg-raised py-2 pr-1.5 pl-3 shadow-float">
      <StateShape
        tone={tone}
        className={`mt-1.5 ${tone === "bad" ? "text-bad" : tone === "ok" ? "text-ok" : "text-ink-2"}`}
      />
      <div className="min-w-0 flex-1 break-words py-0.5 text-sm">
        {text && <p>{text}</p>}
        {said && <p>{said.message}</p>}
        {said?.todo && <p className="text-ink-2">{said.todo}</p>}
        {said?.requestId && <RequestId id={said.requestId} />}
      </div>
      <IconButton icon={X} label={t.do.dismiss} size="sm" onClick={() => drop(id)} />
    </li>
  );
}

/** The place of all toasts; the application has one. Screen readers say what comes. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <ol
      aria-live="polite"
      className="fixed right-3 bottom-3 z-50 flex w-[min(24rem,calc(100vw-1.5rem))] flex-col gap-2"
    >
      {shown.map((it) => (
        <Note key={it.id} toast={it} />
      ))}
    </ol>
  );
}
