import { type FormEvent, useId, useState } from "react";
import { hasRole, useMe } from "@/data/session";
import { useCreateOwnToken } from "@/data/tokens";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { Segmented } from "@/kit/choices";
import { Command } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { TextInput } from "@/kit/inputs";
import { Select } from "@/kit/select";
import { useT } from "./t";

const AREAS = [
  ["models", "admin"],
  ["keys", "org_admin"],
  ["usage", "org_admin"],
  ["people", "org_admin"],
  ["system", "admin"],
  ["deployment", "admin"],
  ["audit", "admin"],
  ["account", "user"],
] as const;
type Area = (typeof AREAS)[number][0];
type Right = "none" | "read" | "write";
const DAYS = ["7", "30", "90", "366"] as const;

/** Makes a token and shows it, this once. */
export function CreateToken({ onClose }: { onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const form = useId();
  const me = useMe();
  const create = useCreateOwnToken();
  const [name, setName] = useState("");
  const [rights, setRights] = useState<Partial<Record<Area, Right>>>({});
  const [days, setDays] = useState<(typeof DAYS)[number]>("90");
  const [empty, setEmpty] = useState(false);
  const errors = formErrors(create.error, ["name"]);
  const scopes = AREAS.flatMap(([area]) => {
    const right = rights[area] ?? "none";
    return right === "none" ? [] : [`${area}:${right}` as const];
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setEmpty(scopes.length === 0);
    if (scopes.length === 0) return;
    const expires_at = new Date(Date.now() + Number(days) * 86_400_000 - 60_000).toISOString();
    create.mutate({ name, scopes, expires_at });
  };
  if (create.data) {
    return (
      <Dialog
        open
        stays
        onClose={onClose}
        title={t.made}
        description={t.once}
        footer={
          <Button look="primary" onClick={onClose}>
            {t.saved}
          </Button>
        }
      >
        <Command code={create.data.token} />
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title={t.createToken}
      size="md"
      footer={
        <>
          <Button onClick={onClose}>{c.do.cancel}</Button>
          <Button type="submit" form={form} look="primary" busy={create.isPending}>
            {c.do.create}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate className="flex flex-col gap-4">
        <Field label={t.name} help={t.nameHelp} error={errors.of("name")} required>
          <TextInput value={name} onValue={setName} required maxLength={100} autoFocus />
        </Field>
        <fieldset className="flex flex-col gap-2">
          <legend className="mb-1 font-medium text-sm">{t.scopesLabel}</legend>
          {AREAS.filter(([, role]) => me && hasRole(me.role, role)).map(([area]) => (
            <div
              key={area}
              className="flex flex-col items-start gap-x-3 gap-y-1 sm:flex-row sm:items-center sm:justify-between"
            >
              <span className="text-sm">{t.areas[area]}</span>
              <Segmented<Right>
                label={t.areas[area]}
                value={rights[area] ?? "none"}
                onValue={(right) => {
                  setRights({ ...rights, [area]: right });
                  setEmpty(false);
                }}
                options={[
                  { value: "none", label: t.none },
                  { value: "read", label: t.read },
                  { value: "write", label: t.write, disabled: area === "audit" },
                ]}
              />
            </div>
          ))}
          {empty && (
            <p role="alert" className="text-bad text-sm">
              {t.needScope}
            </p>
          )}
        </fieldset>
        <Field label={t.expires}>
          <Select
            value={days}
            onValue={setDays}
            options={DAYS.map((value) => ({ value, label: t.days(Number(value)) }))}
          />
        </Field>
        {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
      </form>
    </Dialog>
  );
}
