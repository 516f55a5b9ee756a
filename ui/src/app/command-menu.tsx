import { Dialog } from "@base-ui/react/dialog";
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { useT } from "@/i18n";
import { cn } from "@/kit/cn";
import { type CommandEntry, useCommands } from "./commands";

/** Keeps what contains every word that was typed; what begins with the text comes first. */
export function matching(commands: CommandEntry[], text: string): CommandEntry[] {
  const whole = text.trim().toLowerCase();
  const words = whole.split(/\s+/);
  const found = commands.filter((it) => words.every((word) => it.label.toLowerCase().includes(word)));
  const begins = (it: CommandEntry) => Number(it.label.toLowerCase().startsWith(whole));
  return whole ? found.sort((a, b) => begins(b) - begins(a)).slice(0, 50) : found.slice(0, 50);
}

/** Finds pages, models and actions by typing. */
export function CommandMenu({ onClose }: { onClose: () => void }) {
  const t = useT();
  const id = useId();
  const commands = useCommands();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const found = useMemo(() => matching(commands, text), [commands, text]);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    list.current?.querySelector(`[data-at="${chosen}"]`)?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const run = (command: CommandEntry | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Enter") run(found[chosen]);
    else if (step === 0 || found.length === 0) return;
    else setAt((chosen + step + found.length) % found.length);
    event.preventDefault();
  };
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-overlay" />
        <Dialog.Popup className="fixed inset-x-3 top-[10vh] z-40 mx-auto flex max-h-[70vh] max-w-xl flex-col overflow-hidden rounded-lg border border-line bg-raised shadow-float outline-none">
          <Dialog.Title className="sr-only">{t.shell.commands}</Dialog.Title>
          <input
            role="combobox"
            aria-expanded
            aria-controls={`${id}-list`}
            aria-activedescendant={found.length > 0 ? `${id}-${chosen}` : undefined}
            aria-label={t.commands.placeholder}
            placeholder={t.commands.placeholder}
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setAt(0);
            }}
            onKeyDown={onKey}
            className="h-12 shrink-0 border-line border-b bg-transparent px-4 text-base outline-none"
          />
          <div
            ref={list}
            id={`${id}-list`}
            role="listbox"
            aria-label={t.shell.commands}
            className="min-h-0 overflow-y-auto p-1.5"
          >
            {found.map((it, index) => (
              <div key={`${it.group} ${it.id}`} role="presentation">
                {(index === 0 || found[index - 1]?.group !== it.group) && (
                  <div role="presentation" className="px-2 pt-2 pb-1 text-ink-3 text-xs">
                    {t.commands[it.group]}
                  </div>
                )}
                {/* biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled where they are typed */}
                <div
                  id={`${id}-${index}`}
                  data-at={index}
                  role="option"
                  tabIndex={-1}
                  aria-selected={index === chosen}
                  onMouseMove={() => setAt(index)}
                  onClick={() => run(it)}
                  className={cn(
                    "flex h-9 cursor-default items-center gap-2.5 rounded-md px-2 text-sm",
                    index === chosen && "bg-hover",
                  )}
                >
                  <it.icon aria-hidden className="size-4 shrink-0 text-ink-2" />
                  <span className="truncate">{it.label}</span>
                </div>
              </div>
            ))}
          </div>
          {found.length === 0 && <p className="p-4 text-center text-ink-3 text-sm">{t.commands.none}</p>}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
