import { Checkbox, Segmented } from "@/kit/choices";
import { Field } from "@/kit/field";
import { PasswordInput, TextInput } from "@/kit/inputs";
import { useT as useModelT } from "@/parts/models/t";
import type { Draft } from "./draft";
import { useT } from "./t";

type BasicsProps = {
  draft: Draft;
  /** The served name that the gateway gives the model if none is typed. */
  filledIn: string | undefined;
  onChange: (part: Partial<Draft>) => void;
  errorOf: (name: string) => string | undefined;
};

/** Names, engine and task of a new model. */
export function Basics({ draft, filledIn, onChange, errorOf }: BasicsProps) {
  const t = useT();
  const m = useModelT();
  const fileError = errorOf("local_path") ?? errorOf("repo_id");
  return (
    <div className="grid items-start gap-x-6 gap-y-4 sm:grid-cols-2">
      <Field label={t.name} help={t.nameHelp} error={errorOf("served_name")}>
        <TextInput
          value={draft.served}
          onValue={(served) => onChange({ served })}
          placeholder={filledIn}
          autoComplete="off"
          spellCheck={false}
        />
      </Field>
      <Field label={t.label} help={t.labelHelp} error={errorOf("name")}>
        <TextInput
          value={draft.name}
          onValue={(name) => onChange({ name })}
          placeholder={draft.served || filledIn}
          autoComplete="off"
        />
      </Field>
      <Field label={t.engine} error={errorOf("engine_type")}>
        <div>
          <Segmented
            label={t.engine}
            value={draft.engine}
            onValue={(engine) => onChange({ engine })}
            options={[
              { value: "vllm", label: m.engine.vllm },
              { value: "llamacpp", label: m.engine.llamacpp },
            ]}
          />
        </div>
      </Field>
      <Field label={t.task} error={errorOf("task")}>
        <div>
          <Segmented
            label={t.task}
            value={draft.task}
            onValue={(task) => onChange({ task })}
            options={[
              { value: "generate", label: m.task.generate },
              { value: "embed", label: m.task.embed },
            ]}
          />
        </div>
      </Field>
      {draft.settings.repo_id !== undefined && (
        <Field label={t.hubToken} help={t.hubTokenHelp} error={errorOf("hub_token")} optional>
          <PasswordInput
            value={draft.token}
            onValue={(token) => onChange({ token })}
            autoComplete="new-password"
          />
        </Field>
      )}
      <div className="flex flex-col gap-3 sm:col-span-2">
        <Checkbox
          checked={draft.tuned}
          onChecked={(tuned) => onChange({ tuned })}
          label={t.tuned}
          help={t.tunedHelp}
        />
        {(fileError || draft.force) && (
          <>
            {fileError && (
              <p role="alert" className="text-bad text-sm">
                {fileError}
              </p>
            )}
            <Checkbox
              checked={draft.force}
              onChecked={(force) => onChange({ force })}
              label={t.missing}
              help={t.missingHelp}
            />
          </>
        )}
      </div>
    </div>
  );
}
