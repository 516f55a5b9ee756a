import type { Model } from "@/api/types";
import { type ModelField, useModelFields } from "@/data/model-files";
import { useMay } from "@/data/session";
import { Checkbox } from "@/kit/choices";
import { ErrorState } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { PasswordInput, TextInput } from "@/kit/inputs";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { SettingsForm } from "@/parts/models/settings-form";
import { ChangesPanel, TheirChanges } from "./changes";
import { Notices } from "./notices";
import { useT } from "./t";
import type { Typing } from "./typed";
import { useEdit } from "./use-edit";

/** The settings of a model: what is changed here, against what is saved, and the ways to put it into effect. */
export function Configuration({ model, typing }: { model: Model; typing: Typing }) {
  const fields = useModelFields();
  if (fields.error && !fields.data) return <ErrorState error={fields.error} onRetry={fields.refetch} />;
  if (!fields.data) return <Skeleton className="h-96" />;
  return <Editor model={model} fields={fields.data} typing={typing} />;
}

type EditorProps = { model: Model; fields: ModelField[]; typing: Typing };

function Editor({ model, fields, typing }: EditorProps) {
  const t = useT();
  const may = useMay();
  const edit = useEdit(model, fields, typing);
  const running = model.state !== "stopped" && model.state !== "failed";
  return (
    <div className="flex flex-col gap-4">
      {(model.needs_apply || model.rolled_back) && <Notices model={model} />}
      <TheirChanges edit={edit} />
      <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <fieldset disabled={!may("changeModel")} className="flex min-w-0 flex-col gap-4">
          <Panel>
            <div className="grid items-start gap-x-6 gap-y-4 sm:grid-cols-2">
              <Field label={t.servedName} help={t.servedNameHelp} error={edit.errorOf("served_name")}>
                <TextInput
                  value={edit.identity.served_name}
                  onValue={(to) => edit.setIdentity("served_name", to)}
                  disabled={running}
                  spellCheck={false}
                />
              </Field>
              <Field label={t.name} error={edit.errorOf("name")}>
                <TextInput value={edit.identity.name} onValue={(to) => edit.setIdentity("name", to)} />
              </Field>
              <Field label={t.hubToken} help={t.hubTokenHelp} error={edit.errorOf("hub_token")} optional>
                <PasswordInput
                  value={edit.token}
                  onValue={edit.setToken}
                  autoComplete="new-password"
                  disabled={edit.dropToken}
                />
              </Field>
              {model.hub_token_set && (
                <Checkbox checked={edit.dropToken} onChecked={edit.setDropToken} label={t.dropToken} />
              )}
            </div>
          </Panel>
          <Panel title={t.configuration}>
            <SettingsForm
              withSource
              engine={model.engine_type}
              task={model.task}
              settings={edit.settings}
              before={edit.before}
              onChange={edit.set}
              errorOf={edit.errorOf}
              trained={edit.preview?.vram_estimate?.trained_for ?? null}
            />
          </Panel>
        </fieldset>
        <ChangesPanel model={model} edit={edit} />
      </div>
    </div>
  );
}
