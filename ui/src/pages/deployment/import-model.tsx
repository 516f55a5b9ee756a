import { type FormEvent, useId, useState } from "react";
import type { Body } from "@/api/types";
import { type ManifestEntry, type ModelPlan, useImportModel, useImportModelPlan } from "@/data/deployment";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { Checkbox, RadioGroup } from "@/kit/choices";
import { Command } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { TextInput } from "@/kit/inputs";
import { toast } from "@/kit/toast";
import { importModelCommand } from "./commands";
import { PlanDiff } from "./plan-diff";
import { useT } from "./t";

const FIELDS = ["served_name_override", "local_path_override"] as const;
type Props = { entry: ManifestEntry; dir: string; base: string; onClose: () => void };

/** Imports one model of a package, if wanted with another name or path; what that would do is shown first. */
export function ImportModel({ entry, dir, base, onClose }: Props) {
  const all = useT();
  const t = all.oneModel;
  const c = useCommonT();
  const form = useId();
  const plan = useImportModelPlan();
  const start = useImportModel();
  const [name, setName] = useState("");
  const [path, setPath] = useState("");
  const [conflict, setConflict] = useState<"error" | "rename">("error");
  const [images, setImages] = useState(true);
  const [weights, setWeights] = useState(true);
  const [replace, setReplace] = useState(false);
  const body: Body<"importModel"> = {
    output_dir: dir,
    manifest_file: entry.manifest_file,
    base_dir: base || undefined,
    served_name_override: name.trim() || undefined,
    local_path_override: path.trim() || undefined,
    conflict_strategy: conflict,
    include_images: images,
    include_weights: weights,
    replace_images: replace,
  };
  const fresh = JSON.stringify(plan.variables) === JSON.stringify(body);
  const ready = plan.data?.can_import && fresh;
  const errors = formErrors(start.error ?? plan.error, FIELDS);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    event.stopPropagation();
    start.reset();
    if (!ready) return plan.mutate(body);
    const onSuccess = (made: { served_name: string }) => {
      toast(t.imported(made.served_name));
      onClose();
    };
    start.mutate(body, { onSuccess });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      size="md"
      title={t.title(entry.served_name)}
      footer={
        <>
          <Button onClick={onClose}>{start.isPending ? c.do.close : c.do.cancel}</Button>
          <Button type="submit" form={form} look="primary" busy={plan.isPending || start.isPending}>
            {ready ? t.start : t.check}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate className="flex flex-col gap-4">
        <Field
          label={t.served}
          optional
          help={t.servedHelp(entry.served_name)}
          error={errors.of("served_name_override")}
        >
          <TextInput value={name} onValue={setName} maxLength={200} autoComplete="off" spellCheck={false} />
        </Field>
        <Field label={t.path} optional help={t.pathHelp} error={errors.of("local_path_override")}>
          <TextInput value={path} onValue={setPath} mono maxLength={1000} spellCheck={false} />
        </Field>
        <RadioGroup
          label={t.conflict}
          value={conflict}
          onValue={setConflict}
          options={[
            { value: "error", label: t.refuse },
            { value: "rename", label: t.rename },
          ]}
        />
        <Checkbox checked={images} onChecked={setImages} label={t.images} />
        <Checkbox checked={replace} onChecked={setReplace} label={t.replace} />
        <Checkbox checked={weights} onChecked={setWeights} label={t.weights} />
        <Command code={importModelCommand(body)} />
        {plan.data && fresh && <Would plan={plan.data} />}
        {start.isPending && <p className="text-ink-2 text-sm">{t.busy}</p>}
        {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
      </form>
    </Dialog>
  );
}

function Would({ plan }: { plan: ModelPlan }) {
  const t = useT();
  // With another name it is no conflict any more, but still why the name is another one.
  const conflict = plan.conflict?.message;
  const problems = [...plan.validation_errors, ...(conflict && !plan.can_import ? [conflict] : [])];
  return (
    <div className="flex flex-col gap-2">
      <h3 className="font-medium text-sm">{plan.can_import ? t.importing.can : t.importing.cannot}</h3>
      {problems.map((it) => (
        <p key={it} role="alert" className="break-words text-bad text-sm">
          {it}
        </p>
      ))}
      {conflict && plan.can_import && <p className="wrap-anywhere text-ink-2 text-sm">{conflict}</p>}
      {plan.would_create && (
        <p className="text-ink-2 text-sm">{t.oneModel.would(plan.would_create.served_name)}</p>
      )}
      <PlanDiff
        plan={plan.plan}
        newModels={plan.would_create && plan.can_import ? [plan.would_create.served_name] : []}
        warnings={plan.warnings}
      />
    </div>
  );
}
