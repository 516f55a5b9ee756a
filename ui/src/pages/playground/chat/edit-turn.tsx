import { useEffect, useState } from "react";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { TextArea } from "@/kit/inputs";
import { useT } from "../t";
import { picturesOf } from "./kept";
import { Thumbs } from "./pictures";
import type { Question } from "./talk";
import type { Turn } from "./tree";

type EditTurnProps = {
  session: string;
  turn: Turn;
  onSend: (question: Question) => Promise<void>;
  onCancel: () => void;
};

/** A question that is being changed. It is sent as another version: the first one, and what followed it, stay. */
export function EditTurn({ session, turn, onSend, onCancel }: EditTurnProps) {
  const t = useT();
  const c = useCommonT();
  const [text, setText] = useState(turn.content);
  // `undefined`: this browser has not said yet which pictures it keeps.
  const [pictures, setPictures] = useState<string[] | undefined>(turn.facts.pictures ? undefined : []);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let current = true;
    if (turn.facts.pictures) void picturesOf(session, turn.id).then((found) => current && setPictures(found));
    return () => {
      current = false;
    };
  }, [session, turn.id, turn.facts.pictures]);
  const send = async () => {
    if (busy || !pictures || (text.trim() === "" && pictures.length === 0)) return;
    setBusy(true);
    setError(undefined);
    try {
      await onSend({ text, pictures });
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <div className="flex flex-col gap-2">
      <Thumbs
        pictures={pictures ?? []}
        onRemove={(at) => setPictures(pictures?.filter((_, it) => it !== at))}
      />
      <TextArea
        autoFocus
        aria-label={t.turn.edit}
        value={text}
        onValue={setText}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel();
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      {error !== undefined && <ErrorNote error={error} />}
      <div className="flex gap-2">
        <Button look="primary" size="sm" busy={busy} onClick={() => void send()}>
          {t.turn.sendEdited}
        </Button>
        <Button size="sm" onClick={onCancel}>
          {c.do.cancel}
        </Button>
      </div>
      <p className="text-ink-3 text-sm">{t.turn.editHelp}</p>
    </div>
  );
}
