import { type FormEvent, type ReactNode, useId, useState } from "react";
import { useT } from "@/i18n";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { ErrorNote } from "./error-state";
import { Field } from "./field";
import { TextInput } from "./inputs";

type ConfirmDialogProps = {
  open: boolean;
  onClose: () => void;
  /** Names the action and the object: "Delete qwen?" */
  title: string;
  /** The consequence, in whole sentences. */
  consequence: ReactNode;
  /** The verb on the button. */
  action: string;
  /** Does it; the dialog closes when that succeeded, and shows the error when not. */
  onConfirm: () => Promise<unknown>;
  /** The name that has to be typed first, for what can't be undone. */
  typed?: string;
  /** Without it the button is an ordinary one. */
  dangerous?: boolean;
};

/** Asks before something is done that ends or deletes. */
export function ConfirmDialog({
  open,
  onClose,
  title,
  consequence,
  action,
  onConfirm,
  typed,
  dangerous = true,
}: ConfirmDialogProps) {
  const t = useT();
  const form = useId();
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const close = () => {
    setName("");
    setError(undefined);
    onClose();
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      close();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      footer={
        <>
          <Button onClick={close}>{t.do.cancel}</Button>
          <Button
            type="submit"
            form={form}
            look={dangerous ? "danger" : "primary"}
            busy={busy}
            disabled={typed !== undefined && name !== typed}
          >
            {action}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} className="flex flex-col gap-4">
        <div className="max-w-[72ch] text-ink-2">{consequence}</div>
        {typed !== undefined && (
          <Field label={t.confirm.type(typed)}>
            <TextInput value={name} onValue={setName} autoComplete="off" spellCheck={false} mono />
          </Field>
        )}
        {error !== undefined && <ErrorNote error={error} />}
      </form>
    </Dialog>
  );
}
