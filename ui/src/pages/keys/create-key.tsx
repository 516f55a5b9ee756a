import { useState } from "react";
import type { Schema, User } from "@/api/types";
import { PickOrganisation, PickUser } from "@/app/pick";
import { useCreateKey, useCreateOwnKey } from "@/data/keys";
import { hasRole, useMay, useMe } from "@/data/session";
import { RadioGroup } from "@/kit/choices";
import { Field } from "@/kit/field";
import { FormDrawer } from "@/kit/form-drawer";
import { TextInput } from "@/kit/inputs";
import { errorsOf, problemOf } from "./check";
import { KeyFields } from "./key-fields";
import { bodyOf, NEW_KEY } from "./key-values";
import { useT } from "./t";

type Holder = "me" | "user" | "org";
type CreateKeyProps = {
  /** Whom the key is for, if that is known before. */
  holder?: User;
  onClose: () => void;
  onMade: (key: Schema<"NewKey">) => void;
};

/** The form that makes a key: for oneself, and for others by those who manage keys. */
export function CreateKey({ holder: known, onClose, onMade }: CreateKeyProps) {
  const first = known ? "user" : "me";
  const t = useT();
  const me = useMe();
  const may = useMay();
  const [values, setValues] = useState(NEW_KEY);
  const [holder, setHolder] = useState<Holder>(first);
  const [user, setUser] = useState(known?.id ?? null);
  const [org, setOrg] = useState<number | null>(null);
  const [problem, setProblem] = useState<ReturnType<typeof problemOf>>();
  const own = useCreateOwnKey();
  const others = useCreateKey();
  const errors = errorsOf(problem, holder === "me" ? own.error : others.error);
  const global = me !== null && hasRole(me.role, "admin");

  const check = () => {
    if (holder === "user" && user === null) return { field: "user_id", message: t.form.needUser };
    if (holder === "org" && global && org === null) return { field: "org_id", message: t.form.needOrg };
    return problemOf(values, t);
  };
  const submit = () => {
    const found = check();
    setProblem(found);
    if (found) return;
    const body = bodyOf(values, null, Date.now());
    if (holder === "me") {
      const { limit_mode: _, ...rest } = body;
      own.mutate(rest, { onSuccess: onMade });
    } else {
      const whose = holder === "user" ? { user_id: user } : { org_id: org ?? me?.org_id };
      others.mutate({ ...body, ...whose }, { onSuccess: onMade });
    }
  };
  return (
    <FormDrawer
      title={t.form.createTitle}
      onClose={onClose}
      onSubmit={submit}
      action={t.create}
      busy={own.isPending || others.isPending}
      dirty={JSON.stringify(values) !== JSON.stringify(NEW_KEY) || holder !== first}
      error={errors.rest}
    >
      <Field label={t.form.name} help={t.form.nameHelp} error={errors.of("name")}>
        <TextInput
          value={values.name}
          onValue={(name) => setValues({ ...values, name })}
          maxLength={100}
          autoFocus
          autoComplete="off"
        />
      </Field>
      {may("createKey") && (
        <RadioGroup<Holder>
          label={t.form.holder}
          value={holder}
          onValue={setHolder}
          options={[
            { value: "me", label: t.form.mine, help: t.form.mineHelp },
            { value: "user", label: t.form.user, help: t.form.userHelp },
            { value: "org", label: t.form.organisation, help: t.form.orgHelp },
          ]}
        />
      )}
      {holder === "user" && (
        <Field label={t.form.pickUser} error={errors.of("user_id")} required>
          <PickUser value={user} name={known?.username} onValue={setUser} placeholder={t.form.pick} />
        </Field>
      )}
      {holder === "org" && global && (
        <Field label={t.form.pickOrg} error={errors.of("org_id")} required>
          <PickOrganisation value={org} onValue={setOrg} placeholder={t.form.pick} />
        </Field>
      )}
      <KeyFields
        values={values}
        onValues={setValues}
        errorOf={errors.of}
        known={null}
        mayShadow={holder !== "me"}
      />
    </FormDrawer>
  );
}
