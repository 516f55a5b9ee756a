import { useState } from "react";
import { Button } from "./button";
import { ConfirmDialog } from "./confirm-dialog";
import { toast, toastError } from "./toast";

type Words = Record<"disable" | "enable" | "delete" | "disableText" | "deleteText", string> &
  Record<"disableTitle" | "disabled" | "enabled" | "deleteTitle" | "deleted", (name: string) => string>;

type RecordActionsProps = {
  name: string;
  enabled: boolean;
  /** It may be neither disabled nor deleted; the page says why. */
  locked: boolean;
  words: Words;
  /** Enables or disables it. */
  onEnabled: (to: boolean) => Promise<unknown>;
  onDelete: () => Promise<unknown>;
  onDeleted: () => void;
};

/** Disabling, enabling and deleting a user or an organisation; what ends something asks first. */
export function RecordActions(props: RecordActionsProps) {
  const { name, enabled, locked, words: t, onEnabled, onDelete, onDeleted } = props;
  const [asks, setAsks] = useState<"disable" | "delete" | null>(null);
  const [busy, setBusy] = useState(false);
  const close = () => setAsks(null);
  const enable = () => {
    setBusy(true);
    void onEnabled(true)
      .then(() => toast(t.enabled(name)), toastError)
      .finally(() => setBusy(false));
  };
  return (
    <>
      {enabled ? (
        <Button size="sm" look="danger" disabled={locked} onClick={() => setAsks("disable")}>
          {t.disable}
        </Button>
      ) : (
        <Button size="sm" busy={busy} onClick={enable}>
          {t.enable}
        </Button>
      )}
      <Button size="sm" look="danger" disabled={locked} onClick={() => setAsks("delete")}>
        {t.delete}
      </Button>
      <ConfirmDialog
        open={asks === "disable"}
        onClose={close}
        title={t.disableTitle(name)}
        consequence={t.disableText}
        action={t.disable}
        onConfirm={async () => {
          await onEnabled(false);
          toast(t.disabled(name));
        }}
      />
      <ConfirmDialog
        open={asks === "delete"}
        onClose={close}
        title={t.deleteTitle(name)}
        consequence={t.deleteText}
        action={t.delete}
        typed={name}
        onConfirm={async () => {
          await onDelete();
          toast(t.deleted(name));
          onDeleted();
        }}
      />
    </>
  );
}
