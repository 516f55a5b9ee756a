import { type FormEvent, useState } from "react";
import type { Body } from "@/api/types";
import { useCheckDump, useRestore } from "@/data/deployment";
import { useMay } from "@/data/session";
import { Button } from "@/kit/button";
import { Checkbox } from "@/kit/choices";
import { Command } from "@/kit/code-block";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { TextInput } from "@/kit/inputs";
import { useKept } from "@/kit/kept";
import { Panel } from "@/kit/panel";
import { toast } from "@/kit/toast";
import { restoreCommand } from "./commands";
import { DirField, useDir } from "./dir-field";
import { Drills } from "./drills";
import { DumpFacts } from "./dump-facts";
import { useT } from "./t";

const FIELDS = ["output_dir", "db_file", "base_dir"] as const;
/** The dump of a package. */
const DUMP = "db/dump.sql";
const FORM = { file: "", base: "", drop: false, backup: true };

/** Checks a dump, says what a restore does to whom, and restores it. */
export function Restoring({ busy }: { busy: boolean }) {
  const all = useT();
  const t = all.restoring;
  const may = useMay();
  const check = useCheckDump();
  const restore = useRestore();
  const [dir, setDir] = useDir();
  const [{ file, base, drop, backup }, change, forget] = useKept("restore", FORM);
  const [asks, setAsks] = useState(false);
  const place = {
    output_dir: dir.trim(),
    db_file: file.trim() || undefined,
    base_dir: base.trim() || undefined,
  };
  const body: Body<"restoreDatabase"> = { ...place, drop_existing: drop, backup_first: backup };
  const fresh = JSON.stringify(check.variables) === JSON.stringify(place);
  const errors = formErrors(check.error, FIELDS);
  const mayRestore = may("restoreDatabase");
  const ready = fresh && check.data?.valid;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    check.mutate(place);
  };
  return (
    <div className="grid items-start gap-4 xl:grid-cols-2">
      <Panel title={t.title}>
        <form onSubmit={submit} className="flex max-w-2xl flex-col gap-5">
          <p className="max-w-[72ch] text-ink-2">{t.lead}</p>
          <DirField value={dir} onValue={setDir} error={errors.of("output_dir")} />
          <Field label={t.file} optional help={t.fileHelp} error={errors.of("db_file")}>
            <TextInput
              value={file}
              onValue={(to) => change({ file: to })}
              mono
              placeholder={DUMP}
              autoComplete="off"
              spellCheck={false}
            />
          </Field>
          <Field
            label={all.importing.base}
            optional
            help={all.importing.baseHelp}
            error={errors.of("base_dir")}
          >
            <TextInput
              value={base}
              onValue={(to) => change({ base: to })}
              mono
              autoComplete="off"
              spellCheck={false}
            />
          </Field>
          {mayRestore && (
            <>
              <Checkbox
                checked={drop}
                onChecked={(to) => change({ drop: to })}
                label={t.drop}
                help={t.dropHelp}
              />
              <Checkbox
                checked={backup}
                onChecked={(to) => change({ backup: to })}
                label={t.backup}
                help={t.backupHelp}
              />
            </>
          )}
          <div>
            <p className="mb-1 text-ink-2 text-sm">{all.command}</p>
            <Command code={restoreCommand(body, !mayRestore || !ready)} />
          </div>
          {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
          {!mayRestore && <p className="text-ink-2 text-sm">{all.ownerOnly}</p>}
          <div className="flex flex-wrap items-center gap-3">
            <Button
              type="submit"
              look={ready && mayRestore ? "plain" : "primary"}
              busy={check.isPending}
              disabled={!dir.trim()}
            >
              {t.check}
            </Button>
            {mayRestore && (
              <Button look="danger" disabled={!ready || !drop || busy} onClick={() => setAsks(true)}>
                {t.start}
              </Button>
            )}
            {busy && <p className="text-ink-2 text-sm">{all.running}</p>}
          </div>
        </form>
      </Panel>
      <div className="flex min-w-0 flex-col gap-4">
        {check.data && fresh && <DumpFacts dump={check.data} />}
        <Drills />
      </div>
      <ConfirmDialog
        open={asks}
        onClose={() => setAsks(false)}
        title={t.confirmTitle}
        typed={location.host}
        action={t.action}
        consequence={
          <div className="flex flex-col gap-2">
            <p className="font-medium text-ink">{t.confirm(location.host)}</p>
            <p>{t.session}</p>
            <p>{t.models}</p>
            <p>{t.keys}</p>
            {!backup && <p className="font-medium text-bad">{t.noBackup}</p>}
          </div>
        }
        onConfirm={async () => {
          await restore.mutateAsync(body);
          forget();
          toast(all.begun);
        }}
      />
    </div>
  );
}
