import { useState } from "react";
import type { Organisation } from "@/api/types";
import { useChangeOrganisation, useCreateOrganisation } from "@/data/orgs";
import { useT as useCommonT, useFormat } from "@/i18n";
import { ChangedNote } from "@/kit/changed-note";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { FormDrawer } from "@/kit/form-drawer";
import { TextInput } from "@/kit/inputs";
import { LimitFields } from "@/kit/limits/limit-fields";
import { changedLimits, LIMITS, limitsOf, NO_LIMITS, wrongLimit } from "@/kit/limits/limits";
import { useT as useLimitsT } from "@/kit/limits/t";
import { toast } from "@/kit/toast";
import { useT } from "./t";

const FIELDS = ["name", ...LIMITS];

/** Makes an organisation, or changes one: `of` is its record as it is now. */
export function OrgForm({ of, onClose }: { of?: Organisation; onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const create = useCreateOrganisation();
  const change = useChangeOrganisation();
  const [base, setBase] = useState(of);
  const [name, setName] = useState(of?.name ?? "");
  const [limits, setLimits] = useState(of ? limitsOf(of) : NO_LIMITS);
  const [checked, setChecked] = useState(false);
  const errors = formErrors(of ? change.error : create.error, FIELDS);
  const theirs = useTheirs(base, of);
  const wrong = wrongLimit(limits);
  const changes = {
    ...(name.trim() === base?.name ? {} : { name: name.trim() }),
    ...changedLimits(limits, base ?? NO_LIMITS),
  };
  const errorOf = (field: string) => {
    if (checked && field === "name" && !name.trim()) return t.needName;
    if (checked && field === wrong) return t.badLimit;
    return errors.of(field);
  };
  const submit = () => {
    setChecked(true);
    if (!name.trim() || wrong) return;
    const said = (text: (name: string) => string) => ({
      onSuccess: (org: Organisation) => {
        toast(text(org.name));
        onClose();
      },
    });
    if (of) change.mutate({ id: of.id, body: changes, revision: of.revision }, said(t.saved));
    else create.mutate({ name: name.trim(), ...limits }, said(t.made));
  };
  const take = () => {
    if (!of) return;
    setBase(of);
    setName(of.name);
    setLimits(limitsOf(of));
  };
  return (
    <FormDrawer
      title={of ? t.editTitle(of.name) : t.createTitle}
      onClose={onClose}
      onSubmit={submit}
      action={of ? c.do.save : t.create}
      busy={create.isPending || change.isPending}
      dirty={of ? Object.keys(changes).length > 0 : name !== "" || Object.keys(changes).length > 1}
      error={errors.rest}
    >
      <ChangedNote theirs={theirs} onTake={take} />
      <Field label={t.name} error={errorOf("name")} required>
        <TextInput value={name} onValue={setName} maxLength={100} autoFocus autoComplete="off" />
      </Field>
      <LimitFields value={limits} onValue={setLimits} errorOf={errorOf} />
    </FormDrawer>
  );
}

function useTheirs(base: Organisation | undefined, latest: Organisation | undefined) {
  const t = useT();
  const c = useCommonT();
  const names = useLimitsT().names;
  const format = useFormat();
  if (!base || !latest) return [];
  const theirs = LIMITS.filter((it) => base[it] !== latest[it]).map((it) => {
    const value = latest[it];
    return { label: names[it], value: value === null ? c.word.unlimited : format.integer(value) };
  });
  return base.name === latest.name ? theirs : [{ label: t.name, value: latest.name }, ...theirs];
}
