import { useState } from "react";
import type { Key } from "@/api/types";
import { useChangeKey } from "@/data/keys";
import { useT as useCommonT, useFormat } from "@/i18n";
import { ChangedNote, type Theirs } from "@/kit/changed-note";
import { Field } from "@/kit/field";
import { FormDrawer } from "@/kit/form-drawer";
import { TextInput } from "@/kit/inputs";
import { LIMITS } from "@/kit/limits/limits";
import { useT as useLimitsT } from "@/kit/limits/t";
import { toast } from "@/kit/toast";
import { errorsOf, problemOf } from "./check";
import { KeyFields } from "./key-fields";
import { changesOf, valuesOf } from "./key-values";
import { useT } from "./t";

/** The form that changes a key. `latest` is the record as it is now; it may change while the form is open. */
export function EditKey({ latest, onClose }: { latest: Key; onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const change = useChangeKey();
  const [base, setBase] = useState(latest);
  const [values, setValues] = useState(() => valuesOf(latest));
  const [problem, setProblem] = useState<ReturnType<typeof problemOf>>();
  const errors = errorsOf(problem, change.error);
  const theirs = useTheirs(base, latest);
  const changes = changesOf(values, base, Date.now());
  const submit = () => {
    const found = problemOf(values, t);
    setProblem(found);
    if (found) return;
    const done = (key: Key) => {
      toast(t.saved(key.name || key.prefix));
      onClose();
    };
    if (Object.keys(changes ?? {}).length === 0) return onClose();
    change.mutate({ id: latest.id, body: changes, revision: latest.revision }, { onSuccess: done });
  };
  const take = () => {
    setBase(latest);
    setValues(valuesOf(latest));
  };
  return (
    <FormDrawer
      title={t.editTitle(latest.name || latest.prefix)}
      onClose={onClose}
      onSubmit={submit}
      action={c.do.save}
      busy={change.isPending}
      dirty={Object.keys(changes ?? {}).length > 0}
      error={errors.rest}
    >
      <ChangedNote theirs={theirs} onTake={take} />
      <Field label={t.form.name} help={t.form.nameHelp} error={errors.of("name")}>
        <TextInput
          value={values.name}
          onValue={(name) => setValues({ ...values, name })}
          maxLength={100}
          autoComplete="off"
        />
      </Field>
      <KeyFields
        values={values}
        onValues={setValues}
        errorOf={errors.of}
        known={base.expires_at}
        effective={base.effective_limits}
        mayShadow
      />
    </FormDrawer>
  );
}

/** What somebody else changed since the form was opened. */
function useTheirs(base: Key, latest: Key): Theirs[] {
  const t = useT();
  const c = useCommonT();
  const limits = useLimitsT();
  const format = useFormat();
  const number = (value: number | null) => (value === null ? c.word.unlimited : format.integer(value));
  const pairs: [string, (key: Key) => string][] = [
    [t.columns.name, (it) => it.name || t.unnamed],
    [t.columns.scopes, (it) => it.scopes],
    [t.columns.models, (it) => it.models?.join(", ") ?? t.allModels],
    [t.columns.addresses, (it) => it.ip_allowlist.join(", ") || t.everywhere],
    [t.columns.expires, (it) => (it.expires_at ? format.dateTime(it.expires_at) : c.word.never)],
    [t.columns.state, (it) => it.status],
    ...LIMITS.map((name): [string, (key: Key) => string] => [limits.names[name], (it) => number(it[name])]),
  ];
  return pairs.flatMap(([label, of]) => (of(base) === of(latest) ? [] : [{ label, value: of(latest) }]));
}
