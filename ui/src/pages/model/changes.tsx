import { useState } from "react";
import type { Model } from "@/api/types";
import { useMay } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { toast } from "@/kit/toast";
import { stopsAtUnreadable } from "@/kit/unreadable";
import { Outcome } from "@/parts/models/outcome";
import { type Change, shown } from "@/parts/models/settings";
import { ApplyDialog } from "./dialogs";
import { useT } from "./t";
import type { Edit } from "./use-edit";

/** What is changed, old beside new, with the ways to save it; and below it what a start would do with the changes. */
export function ChangesPanel({ model, edit }: { model: Model; edit: Edit }) {
  const t = useT();
  const may = useMay();
  const [applying, setApplying] = useState(false);
  const active = model.state === "running" || model.state === "loading" || model.state === "starting";
  const save = () => {
    if (stopsAtUnreadable()) return;
    void edit.send().then(
      () => toast(active ? `${t.saved(model.served_name)} ${t.savedRunning}` : t.saved(model.served_name)),
      () => {
        // The field that is refused shows why, or else this panel.
      },
    );
  };
  return (
    <div className="flex min-w-0 flex-col gap-4 xl:sticky xl:top-16">
      {may("changeModel") && (
        <Panel title={t.changes} note={edit.count > 0 && t.changed(edit.count)}>
          <div className="flex flex-col gap-3">
            {edit.mine.length > 0 ? (
              <Diff changes={edit.mine} was={t.was} willBe={t.willBe} />
            ) : (
              edit.count === 0 && <p className="text-ink-2 text-sm">{t.nothingChanged}</p>
            )}
            {edit.error !== undefined && <ErrorNote error={edit.error} />}
            <div className="flex flex-wrap gap-2">
              <Button look="primary" disabled={edit.count === 0} busy={edit.busy} onClick={save}>
                {t.save}
              </Button>
              {may("applyModel") && !model.archived && (
                <Button
                  disabled={edit.count === 0 && !model.needs_apply}
                  onClick={() => setApplying(!stopsAtUnreadable())}
                >
                  {edit.count === 0 ? t.apply : t.saveApply}
                </Button>
              )}
              {edit.count > 0 && (
                <Button look="quiet" onClick={edit.discard}>
                  {t.discard}
                </Button>
              )}
            </div>
          </div>
        </Panel>
      )}
      <Outcome
        preview={edit.preview}
        error={edit.previewError}
        before={edit.savedCommand}
        own={model.served_name}
        onSet={may("changeModel") ? edit.setMany : undefined}
      />
      {applying && (
        <ApplyDialog
          model={model}
          onClose={() => setApplying(false)}
          before={edit.count > 0 ? () => edit.send() : undefined}
        />
      )}
    </div>
  );
}

/** Says that somebody else changed the record while it is edited here, theirs beside ours. */
export function TheirChanges({ edit }: { edit: Edit }) {
  const t = useT();
  const c = useCommonT();
  if (!edit.isOutdated) return null;
  const mine = new Map(edit.mine.map((it) => [it.name, it.to]));
  return (
    <section role="alert" className="rounded-lg border border-warn-solid bg-panel p-4">
      <p className="font-medium text-sm">{t.theirs}</p>
      <p className="mb-3 max-w-[72ch] text-ink-2 text-sm">{t.theirsText}</p>
      {edit.theirs.length > 0 && (
        <Diff
          changes={edit.theirs.map((it) => ({ ...it, from: mine.get(it.name) ?? it.from }))}
          was={t.yours}
          willBe={t.theirValue}
        />
      )}
      <Button size="sm" className="mt-3" onClick={edit.seen}>
        {c.do.dismiss}
      </Button>
    </section>
  );
}

function Diff({ changes, was, willBe }: { changes: Change[]; was: string; willBe: string }) {
  const t = useT();
  return (
    <table className="w-full table-fixed text-sm">
      <caption className="sr-only">{t.changes}</caption>
      <thead>
        <tr className="text-left text-ink-2">
          <th scope="col" className="py-1 pr-2 font-medium">
            {t.setting}
          </th>
          <th scope="col" className="py-1 pr-2 font-medium">
            {was}
          </th>
          <th scope="col" className="py-1 font-medium">
            {willBe}
          </th>
        </tr>
      </thead>
      <tbody>
        {changes.map((it) => (
          <tr key={it.name} className="border-line border-t align-top">
            <td className="break-all py-1 pr-2 font-mono text-xs">{it.name}</td>
            <td className="break-words py-1 pr-2 text-ink-2">{shown(it.from)}</td>
            <td className="break-words py-1 font-medium">{shown(it.to)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
