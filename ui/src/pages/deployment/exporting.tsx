import type { FormEvent } from "react";
import type { Body } from "@/api/types";
import { useExport, useExportModel } from "@/data/deployment";
import { useModels } from "@/data/models";
import { useMay } from "@/data/session";
import { Button } from "@/kit/button";
import { Checkbox, RadioGroup } from "@/kit/choices";
import { Command } from "@/kit/code-block";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { NumberInput, TextInput } from "@/kit/inputs";
import { useKept } from "@/kit/kept";
import { Panel } from "@/kit/panel";
import { Select } from "@/kit/select";
import { toast } from "@/kit/toast";
import { useUrlState } from "@/kit/url-state";
import { exportCommand, exportModelCommand } from "./commands";
import { DirField, useDir } from "./dir-field";
import { ExportSize } from "./export-size";
import { useT } from "./t";

const MIB = 1024 * 1024;
const FIELDS = ["output_dir", "part_size", "since"] as const;

type Choices = Required<
  Pick<
    { [K in keyof Body<"exportDeployment">]: boolean },
    | "include_images"
    | "include_db"
    | "include_configs"
    | "include_models_manifest"
    | "tar_models"
    | "tar_hub_cache"
    | "include_env"
    | "allow_pull_images"
  >
>;
const FIRST: Choices = {
  include_images: true,
  include_db: true,
  include_configs: true,
  include_models_manifest: true,
  tar_models: true,
  tar_hub_cache: true,
  include_env: false,
  allow_pull_images: true,
};
/** What is chosen at first; the part size is in MiB. */
const FORM: { choices: Choices; part: number | null; since: string } = {
  choices: FIRST,
  part: null,
  since: "",
};

/** Exports the installation, or one model, into a package. */
export function Exporting({ busy }: { busy: boolean }) {
  const all = useT();
  const t = all.exporting;
  const may = useMay();
  const models = useModels();
  const whole = useExport();
  const single = useExportModel();
  const [dir, setDir] = useDir();
  const [modelId, setModelId] = useUrlState("model");
  const [kind, setKind] = useUrlState("what", "installation");
  const [, setTab] = useUrlState("tab");
  const [{ choices, part, since }, change, forget] = useKept("export", FORM);
  const one = kind === "model";
  const model = models.data?.find((it) => String(it.id) === modelId);
  const disk = {
    output_dir: dir.trim(),
    part_size: part === null ? undefined : Math.round(part * MIB),
    since: since.trim() || undefined,
  };
  const { include_db, include_configs, include_models_manifest, ...ofModel } = choices;
  const body = { ...disk, ...choices };
  const modelBody = { ...disk, output_dir: disk.output_dir || undefined, ...ofModel };
  const doing = one ? single : whole;
  const errors = formErrors(doing.error, FIELDS);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const done = {
      onSuccess: () => {
        toast(all.begun);
        forget();
        setTab("");
      },
    };
    if (one && model) single.mutate({ id: model.id, body: modelBody }, done);
    else if (!one) whole.mutate(body, done);
  };
  const boxes: [keyof Choices, string, string][] = one
    ? [
        ["include_images", t.images, t.imagesHelp],
        ["allow_pull_images", t.pull, t.pullHelp],
        ["tar_models", t.modelWeights, t.weightsHelp],
        ["tar_hub_cache", t.cache, t.cacheHelp],
        ["include_env", t.env, t.envHelp],
      ]
    : [
        ["include_models_manifest", t.manifests, t.manifestsHelp],
        ["include_env", t.env, t.envHelp],
        ["tar_models", t.weights, t.weightsHelp],
        ["tar_hub_cache", t.cache, t.cacheHelp],
        ["include_images", t.images, t.imagesHelp],
        ["allow_pull_images", t.pull, t.pullHelp],
        ["include_db", t.db, t.dbHelp],
        ["include_configs", t.configs, t.configsHelp],
      ];
  const mayStart = one ? may("exportModel") : may("exportDeployment");
  return (
    <div className="grid items-start gap-4 xl:grid-cols-2">
      <Panel title={t.title}>
        <form onSubmit={submit} className="flex max-w-2xl flex-col gap-5">
          <p className="max-w-[72ch] text-ink-2">{t.lead}</p>
          <RadioGroup
            label={t.what}
            value={one ? "model" : "installation"}
            onValue={setKind}
            options={[
              { value: "installation", label: t.installation },
              { value: "model", label: t.oneModel },
            ]}
          />
          {one && (
            <Field label={t.model} required>
              <Select
                value={modelId}
                onValue={setModelId}
                options={[
                  { value: "", label: t.chooseModel },
                  ...(models.data ?? []).map((it) => ({ value: String(it.id), label: it.served_name })),
                ]}
              />
            </Field>
          )}
          <DirField value={dir} onValue={setDir} error={errors.of("output_dir")} />
          <fieldset className="flex flex-col gap-2.5">
            <legend className="mb-2 font-medium text-sm">{t.contents}</legend>
            {boxes.map(([name, label, help]) => (
              <Checkbox
                key={name}
                checked={choices[name]}
                disabled={name === "allow_pull_images" && !choices.include_images}
                onChecked={(to) => change({ choices: { ...choices, [name]: to } })}
                label={label}
                help={help}
              />
            ))}
          </fieldset>
          <Field
            label={t.partSize}
            unit="MiB"
            optional
            help={t.partSizeHelp}
            error={errors.of("part_size") ?? (part !== null && part < 1 ? t.partSmall : undefined)}
          >
            <NumberInput
              value={part}
              onValue={(to) => change({ part: to })}
              min={1}
              className="max-w-40"
              placeholder="4000"
            />
          </Field>
          <Field label={t.since} optional help={t.sinceHelp} error={errors.of("since")}>
            <TextInput
              value={since}
              onValue={(to) => change({ since: to })}
              mono
              autoComplete="off"
              spellCheck={false}
            />
          </Field>
          <div>
            <p className="mb-1 text-ink-2 text-sm">{all.command}</p>
            <Command
              code={one ? exportModelCommand(model?.served_name ?? "", modelBody) : exportCommand(body)}
            />
          </div>
          {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
          {mayStart ? (
            <div className="flex flex-wrap items-center gap-3">
              <Button
                type="submit"
                look="primary"
                busy={doing.isPending}
                disabled={busy || !dir.trim() || (one && !model) || (part !== null && part < 1)}
              >
                {t.start}
              </Button>
              {busy && <p className="text-ink-2 text-sm">{all.running}</p>}
            </div>
          ) : (
            <p className="text-ink-2 text-sm">{all.ownerOnly}</p>
          )}
        </form>
      </Panel>
      <Panel title={t.estimate}>
        {one ? (
          <p className="text-ink-2 text-sm">{t.noEstimate}</p>
        ) : (
          <ExportSize
            body={{
              output_dir: dir.trim(),
              include_images: choices.include_images,
              include_db,
              tar_models: choices.tar_models,
              tar_hub_cache: choices.tar_hub_cache,
            }}
            since={Boolean(since.trim())}
          />
        )}
      </Panel>
    </div>
  );
}
