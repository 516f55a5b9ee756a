import { useOwnModels } from "@/data/own-models";
import { useFormat } from "@/i18n";
import { Checkbox, RadioGroup } from "@/kit/choices";
import { Field } from "@/kit/field";
import { FormPart } from "@/kit/form-drawer";
import { TextInput } from "@/kit/inputs";
import { LimitFields } from "@/kit/limits/limit-fields";
import type { Limits } from "@/kit/limits/limits";
import { Select } from "@/kit/select";
import { WordsInput } from "@/kit/words-input";
import { isIpRange } from "./ip";
import { DAYS, type Expiry, type KeyValues, SCOPES } from "./key-values";
import { useT } from "./t";

type KeyFieldsProps = {
  values: KeyValues;
  onValues: (to: KeyValues) => void;
  errorOf: (field: string) => string | undefined;
  /** When the record expires, if it does. */
  known: string | null;
  effective?: Limits;
  /** Only those who manage keys may put limits in shadow mode. */
  mayShadow: boolean;
};

/** Everything about a key that can be set when it is made and changed later. */
export function KeyFields({ values, onValues, errorOf, known, effective, mayShadow }: KeyFieldsProps) {
  const t = useT();
  const format = useFormat();
  const { data: models = [] } = useOwnModels();
  const set = (change: Partial<KeyValues>) => onValues({ ...values, ...change });
  const expiries: { value: Expiry; label: string }[] = [
    ...(known ? [{ value: "keep" as const, label: t.form.keep(format.dateMinute(known)) }] : []),
    { value: "never", label: t.form.never },
    ...DAYS.map((value) => ({ value, label: t.form.days(Number(value)) })),
    { value: "365", label: t.form.year },
    { value: "at", label: t.form.exact },
  ];
  return (
    <>
      <FormPart title={t.form.access}>
        <fieldset className="flex flex-col gap-2">
          <legend className="mb-1 font-medium text-sm">{t.form.scopes}</legend>
          {SCOPES.map((scope) => (
            <Checkbox
              key={scope}
              label={t.scope[scope]}
              checked={values.scopes.includes(scope)}
              onChecked={(on) =>
                set({ scopes: SCOPES.filter((it) => (it === scope ? on : values.scopes.includes(it))) })
              }
            />
          ))}
          {errorOf("scopes") && (
            <p role="alert" className="text-bad text-sm">
              {errorOf("scopes")}
            </p>
          )}
        </fieldset>
        <Field label={t.form.models} help={t.form.modelsHelp} error={errorOf("models")}>
          <WordsInput
            value={values.models}
            onValue={(to) => set({ models: to })}
            suggestions={models.map((it) => it.served_name)}
            placeholder={t.form.modelsPlaceholder}
          />
        </Field>
        <Field label={t.form.addresses} help={t.form.addressesHelp} error={errorOf("ip_allowlist")}>
          <WordsInput
            mono
            value={values.ip_allowlist}
            onValue={(to) => set({ ip_allowlist: to })}
            check={(text) => (isIpRange(text) ? undefined : t.form.badAddress(text))}
            separator={/[\s,;]+/}
            placeholder={t.form.addressesPlaceholder}
          />
        </Field>
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={t.form.expires} error={values.expires === "at" ? undefined : errorOf("expires_at")}>
            <Select value={values.expires} onValue={(to) => set({ expires: to })} options={expiries} />
          </Field>
          {values.expires === "at" && (
            <Field label={t.form.at} error={errorOf("expires_at")} required>
              <TextInput type="datetime-local" value={values.at} onValue={(to) => set({ at: to })} />
            </Field>
          )}
        </div>
      </FormPart>
      <LimitFields
        value={values.limits}
        onValue={(to) => set({ limits: to })}
        errorOf={errorOf}
        effective={effective}
      />
      {mayShadow && (
        <RadioGroup
          label={t.form.limitMode}
          value={values.limit_mode}
          onValue={(to) => set({ limit_mode: to })}
          options={[
            { value: "enforce", label: t.form.enforce, help: t.form.enforceHelp },
            { value: "shadow", label: t.form.shadowMode, help: t.form.shadowHelp },
          ]}
        />
      )}
    </>
  );
}
