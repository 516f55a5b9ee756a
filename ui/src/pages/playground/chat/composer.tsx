import { ImagePlus, Send, Square, X } from "lucide-react";
import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useRef,
  useState,
} from "react";
import { useLocal } from "@/app/local";
import { useFormat } from "@/i18n";
import { Button, IconButton } from "@/kit/button";
import { cn } from "@/kit/cn";
import { ErrorNote } from "@/kit/error-state";
import { TextArea } from "@/kit/inputs";
import { toastError } from "@/kit/toast";
import { useT } from "../t";
import { readPicture, Thumbs } from "./pictures";
import type { Question } from "./talk";
import { useUnsent } from "./use-unsent";

type ComposerProps = {
  /** Whose draft it is: each chat has its own. */
  draft: string;
  writing: boolean;
  /** Why nothing can be sent, if so. */
  blocked?: string;
  /** A model that is asked and sees no pictures. */
  blind?: string;
  onSend: (question: Question) => Promise<void>;
  onStop: () => void;
  /** Up in an empty field. */
  onEditLast: () => void;
  /** Stands beside the button. */
  aside?: ReactNode;
};

/** From this length on a text is long for a field. */
const MUCH = 20_000;

const isPicture = (file: File) => file.type.startsWith("image/");

/** The field for the next question. What is typed outlives a reload. */
export function Composer({
  draft,
  writing,
  blocked: why,
  blind,
  onSend,
  onStop,
  onEditLast,
  aside,
}: ComposerProps) {
  const t = useT();
  const format = useFormat();
  const [text, setText] = useLocal(`draft.${draft}`, "");
  const [pasted, setPasted] = useLocal(`pasted.${draft}`, "");
  const [pictures, setPictures] = useUnsent(draft);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each chat begins with the focus in its field
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current?.focus({ preventScroll: true });
  }, [draft]);
  const blocked = why ?? (blind && pictures.length > 0 ? t.composer.blind(blind) : undefined);
  const empty = text.trim() === "" && pasted === "" && pictures.length === 0;
  const send = async () => {
    if (empty || busy || writing || blocked) return;
    setBusy(true);
    setError(undefined);
    const sent = text;
    try {
      setText("");
      await onSend({ text: [pasted, sent].filter(Boolean).join("\n\n"), pictures });
      setPasted("");
      setPictures(() => []);
    } catch (caught) {
      setText(sent);
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const add = async (files: File[]) => {
    try {
      const read = await Promise.all(files.map(readPicture));
      setPictures((old) => [...old, ...read].slice(0, 8));
    } catch {
      toastError(new Error(t.composer.noPicture));
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && writing) return onStop();
    if (event.key === "ArrowUp" && text === "") {
      event.preventDefault();
      return onEditLast();
    }
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  const takeFiles = (event: ClipboardEvent | DragEvent, files: FileList) => {
    const found = [...files].filter(isPicture);
    if (found.length === 0) return;
    event.preventDefault();
    if (blind) toastError(new Error(t.composer.blind(blind)));
    else void add(found);
  };
  const pasteMuch = (event: ClipboardEvent) => {
    const more = event.clipboardData.getData("text/plain");
    if (more.length < MUCH) return;
    // A field needs minutes for ten thousand lines, so they stand beside it.
    event.preventDefault();
    setPasted(pasted ? `${pasted}\n${more}` : more);
  };
  return (
    <div className="flex flex-col gap-2">
      {error !== undefined && <ErrorNote error={error} />}
      {blocked && (
        <p role="status" className="text-sm text-warn">
          {blocked}
        </p>
      )}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: files may be dropped here; a button does the same */}
      <div
        className="@container flex flex-col gap-2 rounded-lg border border-line-strong bg-panel p-2 has-[textarea:focus-visible]:outline-2 has-[textarea:focus-visible]:outline-accent"
        onDrop={(event) => takeFiles(event, event.dataTransfer.files)}
        onDragOver={(event) => event.preventDefault()}
        onPaste={(event) => {
          takeFiles(event, event.clipboardData.files);
          pasteMuch(event);
        }}
      >
        <Thumbs
          pictures={pictures}
          onRemove={(at) => setPictures((old) => old.filter((_, it) => it !== at))}
        />
        {pasted && (
          <p className="flex items-center gap-1 self-start rounded-md border border-line bg-hover pl-2 text-sm">
            {t.composer.pasted(format.integer(pasted.length))}
            <IconButton icon={X} size="sm" label={t.composer.removePasted} onClick={() => setPasted("")} />
          </p>
        )}
        <TextArea
          ref={field}
          dir="auto"
          rows={1}
          aria-label={t.composer.label}
          placeholder={t.composer.placeholder}
          value={text}
          onValue={setText}
          onKeyDown={onKeyDown}
          // A field that grows with a megabyte of text measures all of it with each key.
          className={cn(
            "max-h-60 min-h-9 resize-none border-transparent hover:border-transparent focus-visible:outline-none",
            text.length > MUCH && "field-sizing-fixed h-60",
          )}
        />
        <div className="flex items-center gap-2">
          {!blind && (
            <IconButton
              icon={ImagePlus}
              size="sm"
              label={t.composer.addPicture}
              onClick={() => picker.current?.click()}
            />
          )}
          <input
            ref={picker}
            type="file"
            accept="image/*"
            multiple
            hidden
            aria-label={t.composer.addPicture}
            onChange={(event) => {
              void add([...(event.target.files ?? [])]);
              event.target.value = "";
            }}
          />
          {/* On a touch screen there are no such keys, and a hint that is cut helps nobody. */}
          <span className={cn("hidden min-w-0 text-ink-3 text-xs", "pointer-fine:@xl:inline")}>
            {t.composer.keys}
          </span>
          {aside && <div className="ml-auto hidden min-[420px]:block">{aside}</div>}
          <span className={aside ? "max-[419px]:ml-auto" : "ml-auto"}>
            {writing ? (
              <Button size="sm" icon={Square} onClick={onStop}>
                {t.composer.stop}
              </Button>
            ) : (
              <Button
                look="primary"
                size="sm"
                icon={Send}
                busy={busy}
                disabled={empty || Boolean(blocked)}
                onClick={() => void send()}
              >
                {t.composer.send}
              </Button>
            )}
          </span>
        </div>
      </div>
    </div>
  );
}
