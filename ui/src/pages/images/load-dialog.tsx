import { type FormEvent, useId, useState } from "react";
import { useLoadImages } from "@/data/images";
import { useLiveJobs } from "@/data/jobs";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Progress } from "@/kit/bars";
import { Button } from "@/kit/button";
import { Command } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { TextInput } from "@/kit/inputs";
import { toast } from "@/kit/toast";
import { useT } from "./t";

/** Loads images from an archive; it shows how far that is, and may be closed meanwhile. */
export function LoadDialog({ onClose }: { onClose: () => void }) {
  const t = useT().dialog;
  const c = useCommonT();
  const format = useFormat();
  const form = useId();
  const load = useLoadImages();
  const [path, setPath] = useState("");
  const job = useLiveJobs()[`image_load ${path.trim()}`];
  const errors = formErrors(load.error, ["path"]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const onSuccess = ({ loaded }: { loaded: string[] }) => {
      toast(t.loaded(format.list(loaded)));
      onClose();
    };
    load.mutate(path.trim(), { onSuccess });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      size="md"
      title={t.title}
      description={t.text}
      footer={
        <>
          <Button onClick={onClose}>{load.isPending ? t.background : c.do.cancel}</Button>
          <Button type="submit" form={form} look="primary" busy={load.isPending} disabled={!path.trim()}>
            {t.start}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate className="flex flex-col gap-4">
        <Field label={t.path} help={t.pathHelp} error={errors.of("path")} required>
          <TextInput
            value={path}
            onValue={setPath}
            mono
            required
            readOnly={load.isPending}
            autoComplete="off"
            spellCheck={false}
          />
        </Field>
        {load.isPending && (
          <Progress
            label={t.running}
            value={job && job.total_bytes > 0 ? job.done_bytes / job.total_bytes : null}
            text={job ? t.of(format.bytes(job.done_bytes), format.bytes(job.total_bytes)) : ""}
          />
        )}
        <Command code={`gantry images load ${path.trim() || "images.tar"}`} />
        {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
      </form>
    </Dialog>
  );
}
