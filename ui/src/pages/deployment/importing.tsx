import type { FormEvent } from "react";
import type { Body } from "@/api/types";
import { useImport, useImportPlan } from "@/data/deployment";
import { useMay } from "@/data/session";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Checkbox } from "@/kit/choices";
import { Command } from "@/kit/code-block";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { TextInput } from "@/kit/inputs";
import { keep, useKept } from "@/kit/kept";
import { Panel } from "@/kit/panel";
import { toast } from "@/kit/toast";
import { importCommand, quoted } from "./commands";
import { DirField, useDir } from "./dir-field";
import { PackageContents } from "./package-contents";
import { PackageFacts } from "./package-facts";
import { hasNothingNew } from "./plan";
import { PlanDiff } from "./plan-diff";
import { useT } from "./t";

const FIELDS = ["output_dir", "base_dir"] as const;
const FIRST = {
  include_images: true,
  include_weights: true,
  include_hub_cache: true,
  include_models: true,
  replace_images: false,
};
const FORM = { base: "", parts: FIRST };

/** Shows what is in a package and what an import of it would do, and imports it. */
export function Importing({ busy }: { busy: boolean }) {
  const all = useT();
  const t = all.importing;
  const may = useMay();
  const plan = useImportPlan();
  const start = useImport();
  const [dir, setDir] = useDir();
  const [{ base, parts }, change] = useKept("import", FORM);
  const body: Body<"importPackage"> = {
    output_dir: dir.trim(),
    base_dir: base.trim() || undefined,
    ...parts,
  };
  const mayImport = may("importPackage");
  const nothing = plan.data?.can_import && hasNothingNew(plan.data);
  const fresh = JSON.stringify(plan.variables) === JSON.stringify(body);
  const found = plan.data;
  const errors = formErrors(plan.error ?? start.error, FIELDS);
  const check = (event: FormEvent) => {
    event.preventDefault();
    start.reset();
    plan.mutate(body);
  };
  const begun = () => {
    // What was chosen stays in sight beside what it does, and the next import begins anew.
    keep("import", null);
    toast(all.begun);
  };
  const boxes: [keyof typeof FIRST, string][] = [
    ["include_models", t.models],
    ["include_images", t.images],
    ["include_weights", t.weights],
    ["include_hub_cache", t.cache],
    ["replace_images", t.replace],
  ];
  return (
    <div className="grid items-start gap-4 xl:grid-cols-2">
      <Panel title={t.title}>
        <form onSubmit={check} className="flex max-w-2xl flex-col gap-5">
          <p className="max-w-[72ch] text-ink-2">{t.lead}</p>
          <DirField value={dir} onValue={setDir} error={errors.of("output_dir")} />
          {mayImport ? (
            <>
              <Field label={t.base} optional help={t.baseHelp} error={errors.of("base_dir")}>
                <TextInput
                  value={base}
                  onValue={(to) => change({ base: to })}
                  mono
                  autoComplete="off"
                  spellCheck={false}
                />
              </Field>
              <fieldset className="flex flex-wrap gap-x-6 gap-y-2">
                <legend className="mb-2 font-medium text-sm">{t.parts}</legend>
                {boxes.map(([name, label]) => (
                  <Checkbox
                    key={name}
                    checked={parts[name]}
                    onChecked={(to) => change({ parts: { ...parts, [name]: to } })}
                    label={label}
                  />
                ))}
              </fieldset>
              <div>
                <p className="mb-1 text-ink-2 text-sm">{all.command}</p>
                <Command code={importCommand({ ...body, dry_run: !found || !fresh })} />
              </div>
              <div>
                <Button
                  type="submit"
                  look={found && fresh ? "plain" : "primary"}
                  busy={plan.isPending}
                  disabled={!dir.trim()}
                >
                  {t.check}
                </Button>
                {plan.isPending && <p className="mt-2 text-ink-3 text-sm">{t.checking}</p>}
              </div>
            </>
          ) : (
            <p className="text-ink-2 text-sm">{all.ownerOnly}</p>
          )}
          {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
        </form>
        {found && (
          <div className="mt-5 flex max-w-2xl flex-col gap-3 border-line border-t pt-4">
            <h3 className="flex items-center gap-2 font-medium text-sm">
              <StateShape
                tone={nothing ? "idle" : found.can_import ? "ok" : "bad"}
                className={nothing ? "text-ink-3" : found.can_import ? "text-ok" : "text-bad"}
              />
              {nothing ? all.diff.nothing : found.can_import ? t.can : t.cannot}
            </h3>
            <PlanDiff
              plan={found.plan}
              newModels={found.new_models}
              presentModels={found.present_models}
              warnings={found.warnings}
            />
            <div className="flex flex-wrap items-center gap-3">
              <Button
                look={nothing ? "plain" : "primary"}
                busy={start.isPending}
                disabled={!found.can_import || nothing || !fresh || busy}
                onClick={() => start.mutate(body, { onSuccess: begun })}
              >
                {t.start}
              </Button>
              {!fresh && <p className="text-ink-2 text-sm">{t.stale}</p>}
              {busy && <p className="text-ink-2 text-sm">{all.running}</p>}
            </div>
          </div>
        )}
      </Panel>
      <div className="flex min-w-0 flex-col gap-4">
        <PackageFacts dir={dir.trim()} />
        <PackageContents dir={dir.trim()} base={base.trim()} busy={busy} />
        <Panel title={t.verify}>
          <div className="flex flex-col gap-2">
            <Command
              code={`gantry package verify ${dir.trim() ? quoted(dir.trim()) : "DIR"} --key package.key.pub`}
            />
            <Command code={`gantry package show ${dir.trim() ? quoted(dir.trim()) : "DIR"}`} />
          </div>
        </Panel>
      </div>
    </div>
  );
}
