import { useState } from "react";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { TextArea } from "@/kit/inputs";
import { useT } from "../t";

type EditTurnProps = { text: string; onSend: (text: string) => Promise<void>; onCancel: () => void };

/** A question that is being changed. It is sent as another version: the first one, and what followed it, stay. */
export function EditTurn({ text: before, onSend, onCancel }: EditTurnProps) {
  const t = useT();
  const c = useCommonT();
  const [text, setText] = useState(before);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const send = async () => {
    if (busy || text.trim() === "") return;
    setBusy(true);
    setError(undefined);
    try {
      await onSend(text);
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <div className="flex flex-col gap-2">
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
