import { useStopModel } from "@/data/models";
import { type RegistryEntry, useRemoveRegistryEntry } from "@/data/registry";
import { useT as useCommonT } from "@/i18n";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { EntryDialog } from "./registry-form";
import type { Row } from "./rows";
import { useT } from "./t";

/** Which dialog of this page is open. */
export type Asked =
  | { kind: "none" }
  | { kind: "stop"; rows: Row[] }
  | { kind: "add" }
  | { kind: "change"; entry: RegistryEntry }
  | { kind: "remove"; name: string };

type DialogsProps = { asked: Asked; ask: (to: Asked) => void; entries: Row[]; onStopped: () => void };

/** The dialogs of this page. */
export function Dialogs({ asked, ask, entries, onStopped }: DialogsProps) {
  const t = useT();
  const c = useCommonT();
  const stop = useStopModel();
  const remove = useRemoveRegistryEntry();
  const close = () => ask({ kind: "none" });
  const names = entries.filter((it) => it.kind === "entry").map((it) => it.name);
  if (asked.kind === "add") return <EntryDialog entry={null} names={names} onClose={close} />;
  if (asked.kind === "change") return <EntryDialog entry={asked.entry} names={names} onClose={close} />;
  if (asked.kind === "remove")
    return (
      <ConfirmDialog
        open
        onClose={close}
        title={t.entry.removeTitle(asked.name)}
        consequence={t.entry.removeText}
        action={c.do.remove}
        onConfirm={() => remove.mutateAsync(asked.name)}
      />
    );
  if (asked.kind !== "stop") return null;
  const { rows } = asked;
  const [first] = rows;
  return (
    <ConfirmDialog
      open
      onClose={close}
      title={rows.length === 1 && first ? t.stopTitle(first.name) : t.stopTitleMany(rows.length)}
      consequence={
        <>
          <p>{t.stopText}</p>
          {rows.length > 1 && <p className="mt-2 break-words">{rows.map((it) => it.name).join(", ")}</p>}
        </>
      }
      action={c.do.stop}
      onConfirm={async () => {
        await Promise.all(
          rows.flatMap((it) => (it.kind === "model" ? [stop.mutateAsync({ id: it.model.id })] : [])),
        );
        onStopped();
      }}
    />
  );
}
