import { useState } from "react";
import type { Schema, User } from "@/api/types";
import { PickOrganisation } from "@/app/pick";
import { useOwnModels } from "@/data/own-models";
import { useChangeUser, useCreatePasswordLink, useCreateUser } from "@/data/users";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ChangedNote } from "@/kit/changed-note";
import { Checkbox, RadioGroup } from "@/kit/choices";
import { CopyButton } from "@/kit/copy";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { FormDrawer } from "@/kit/form-drawer";
import { PasswordInput, TextInput } from "@/kit/inputs";
import { LimitFields } from "@/kit/limits/limit-fields";
import { LIMITS, wrongLimit } from "@/kit/limits/limits";
import { toast, toastError } from "@/kit/toast";
import { WordsInput } from "@/kit/words-input";
import { MadeLink } from "./password-link";
import { useIsLastOwner, useRights } from "./rights";
import { useT } from "./t";
import { useTheirs } from "./theirs";
import { bodyOf, changesOf, NEW_USER, newPassword, valuesOf } from "./user-values";

const FIELDS = ["username", "password", "role", "org_id", "models", ...LIMITS];

/** Makes a user, or changes one: `of` is their record as it is now. */
export function UserForm({ of, onClose }: { of?: User; onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const rights = useRights();
  const create = useCreateUser();
  const change = useChangeUser();
  const makeLink = useCreatePasswordLink();
  const [invited, setInvited] = useState<{ name: string; link: Schema<"PasswordLink"> }>();
  const { data: models = [] } = useOwnModels();
  const [base, setBase] = useState(of);
  const [values, setValues] = useState(of ? valuesOf(of) : NEW_USER);
  const [checked, setChecked] = useState(false);
  const lastOwner = useIsLastOwner(of);
  const theirs = useTheirs(base, of);
  const errors = formErrors(of ? change.error : create.error, FIELDS);
  const bounds = rights.mayBound(base?.role ?? values.role);
  const changes = base ? changesOf(values, base, bounds) : undefined;
  const set = (to: Partial<typeof values>) => setValues({ ...values, ...to });

  const found = new Map<string, string>();
  if (!values.username.trim()) found.set("username", t.form.needName);
  if ((of ? values.password : !values.invite) && Array.from(values.password).length < 8)
    found.set("password", t.form.shortPassword);
  const wrong = bounds && wrongLimit(values.limits);
  if (wrong) found.set(wrong, t.form.badLimit);
  const errorOf = (field: string) => (checked && found.get(field)) || errors.of(field);

  const submit = () => {
    setChecked(true);
    if (found.size > 0) return;
    const said = (text: (name: string) => string) => ({
      onSuccess: (user: User) => {
        toast(text(user.username));
        if (of || !values.invite) return onClose();
        // Where it fails, the user is there all the same, and can be given a link later.
        makeLink.mutate(user.id, {
          onSuccess: (link) => setInvited({ name: user.username, link }),
          onError: (error) => {
            toastError(error);
            onClose();
          },
        });
      },
    });
    if (of && changes) change.mutate({ id: of.id, body: changes, revision: of.revision }, said(t.saved));
    else create.mutate(bodyOf(values, bounds), said(t.made));
  };
  const take = () => {
    if (!of) return;
    setBase(of);
    setValues(valuesOf(of));
  };
  const dirty = changes
    ? Object.keys(changes).length > 0
    : JSON.stringify(values) !== JSON.stringify(NEW_USER);
  if (invited) return <MadeLink {...invited} onClose={onClose} />;
  return (
    <FormDrawer
      title={of ? t.editTitle(of.username) : t.form.createTitle}
      onClose={onClose}
      onSubmit={submit}
      action={of ? c.do.save : values.invite ? t.createInvited : t.create}
      busy={create.isPending || change.isPending || makeLink.isPending}
      dirty={dirty}
      error={errors.rest}
    >
      <ChangedNote theirs={theirs} onTake={take} />
      <Field label={t.form.username} error={errorOf("username")} required>
        <TextInput
          value={values.username}
          onValue={(username) => set({ username })}
          maxLength={64}
          autoFocus={!of}
          autoComplete="off"
          spellCheck={false}
        />
      </Field>
      {!of && (
        <Checkbox
          checked={values.invite}
          onChecked={(invite) => set({ invite })}
          label={t.form.invite}
          help={t.form.inviteHelp}
        />
      )}
      {!values.invite && (
        <Field
          label={of ? t.form.newPassword : t.form.password}
          help={of ? t.form.newPasswordHelp : t.form.passwordHelp}
          error={errorOf("password")}
          required={!of}
          aside={
            <span className="flex items-center gap-1">
              {values.password && <CopyButton text={values.password} label={t.form.copyPassword} />}
              <Button size="sm" look="quiet" onClick={() => set({ password: newPassword() })}>
                {t.form.generate}
              </Button>
            </span>
          }
        >
          <PasswordInput
            value={values.password}
            onValue={(password) => set({ password })}
            autoComplete="new-password"
            maxLength={256}
          />
        </Field>
      )}
      <div>
        <RadioGroup
          label={t.form.role}
          value={values.role}
          onValue={(role) => set({ role })}
          disabled={lastOwner}
          options={rights.roles.map((value) => ({ value, label: c.role[value], help: t.form.roles[value] }))}
        />
        {(errorOf("role") || lastOwner) && (
          <p className="mt-1 text-ink-2 text-sm">{errorOf("role") ?? t.lastOwner}</p>
        )}
      </div>
      {rights.global && (
        <Field label={t.form.org} error={errorOf("org_id")}>
          <PickOrganisation
            value={values.org_id}
            name={of?.org_name}
            onValue={(org_id) => set({ org_id })}
            placeholder={t.form.orgPlaceholder}
          />
        </Field>
      )}
      {of && <p className="text-ink-3 text-sm">{t.form.endsSessions}</p>}
      {bounds && (
        <>
          <Field label={t.form.models} help={t.form.modelsHelp} error={errorOf("models")}>
            <WordsInput
              value={values.models}
              onValue={(to) => set({ models: to })}
              suggestions={models.map((it) => it.served_name)}
              placeholder={t.form.modelsPlaceholder}
            />
          </Field>
          <LimitFields value={values.limits} onValue={(limits) => set({ limits })} errorOf={errorOf} />
        </>
      )}
    </FormDrawer>
  );
}
