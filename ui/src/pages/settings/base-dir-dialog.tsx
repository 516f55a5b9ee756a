import { type FormEvent, useId, useState } from "react";
import type { Answer, Model } from "@/api/types";
import { useModels } from "@/data/models";
import { useChangeModelsBaseDir } from "@/data/settings";
import { useT as useCommonT, useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { TextInput } from "@/kit/inputs";
import { Middle } from "@/kit/text";
import { toast } from "@/kit/toast";
import { useT } from "./t";

/** More would make the dialog longer than a screen. */
const SHOWN = 8;

type Props = { dir: Answer<"getModelsBaseDir">; onClose: () => void };

/** Chooses another folder for model files, and says which models that touches. */
export function BaseDirDialog({ dir, onClose }: Props) {
  const t = useT().baseDir;
  const c = useCommonT();
  const form = useId();
  const change = useChangeModelsBaseDir();
  const [path, setPath] = useState(dir.base_dir);
  const errors = formErrors(change.error, ["base_dir"]);
  const same = path.trim() === dir.base_dir;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const onSuccess = (now: Props["dir"]) => {
      toast(t.changed(now.base_dir));
      onClose();
    };
    change.mutate(path.trim(), { onSuccess });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      size="md"
      title={t.dialog}
      description={t.effect}
      footer={
        <>
          {dir.source === "database" && path !== dir.settings_base_dir && (
            <Button look="quiet" className="mr-auto" onClick={() => setPath(dir.settings_base_dir)}>
              {t.takeBack}
            </Button>
          )}
          <Button onClick={onClose}>{c.do.cancel}</Button>
          <Button
            type="submit"
            form={form}
            look="primary"
            busy={change.isPending}
            disabled={same || path.trim() === ""}
          >
            {t.change}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate className="flex flex-col gap-4">
        <Field label={t.path} help={same ? t.same : t.pathHelp} error={errors.of("base_dir")} required>
          <TextInput value={path} onValue={setPath} mono spellCheck={false} autoComplete="off" required />
        </Field>
        <Touched />
        {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
      </form>
    </Dialog>
  );
}

/** Whether a model's files are looked for in the models folder: an absolute path stays what it is. */
function inBaseDir(model: Model): boolean {
  return !model.archived && model.local_path !== null && !model.local_path.startsWith("/");
}

function Touched() {
  const t = useT().baseDir;
  const format = useFormat();
  const models = useModels();
  const touched = models.data?.filter(inBaseDir);
  if (!touched) return null;
  if (touched.length === 0) return <p className="text-ink-2 text-sm">{t.breaksNone}</p>;
  return (
    <div className="text-sm">
      <p className="mb-2 text-ink-2">
        {touched.length === 1 ? t.breaksOne : t.breaks(format.integer(touched.length))}
      </p>
      <ul className="rounded-md border border-line">
        {touched.slice(0, SHOWN).map((it) => (
          <li
            key={it.id}
            className="flex items-center gap-3 border-line border-b px-3 py-1.5 last:border-b-0"
          >
            <Middle text={it.served_name} className="max-w-[45%] font-medium" />
            <code
              className="min-w-0 flex-1 truncate font-mono text-ink-2 text-xs"
              title={it.local_path ?? ""}
            >
              {it.local_path}
            </code>
            <StateBadge state={it.state} />
          </li>
        ))}
      </ul>
      {touched.length > SHOWN && (
        <p className="mt-1 text-ink-3">{t.more(format.integer(touched.length - SHOWN))}</p>
      )}
    </div>
  );
}
