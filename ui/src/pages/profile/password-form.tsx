import { type FormEvent, useState } from "react";
import { ApiError } from "@/api/errors";
import { useChangePassword, useMe } from "@/data/session";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { PasswordInput } from "@/kit/inputs";
import { toast } from "@/kit/toast";
import { useT } from "./t";

/** Changes one's own password. */
export function PasswordForm() {
  const t = useT();
  const me = useMe();
  const change = useChangePassword();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const errors = formErrors(change.error, ["current_password", "new_password"]);
  const wrong = change.error instanceof ApiError && change.error.code === "invalid_credentials";
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const done = () => {
      toast(t.changed);
      setCurrent("");
      setNext("");
    };
    change.mutate({ current_password: current, new_password: next }, { onSuccess: done });
  };
  return (
    <form onSubmit={submit} noValidate className="flex max-w-sm flex-col gap-4">
      {/* For password managers, which want to know whose password it is. */}
      <input type="text" name="username" autoComplete="username" value={me?.username ?? ""} readOnly hidden />
      <Field label={t.current} error={wrong ? t.wrong : errors.of("current_password")} required>
        <PasswordInput
          value={current}
          onValue={setCurrent}
          name="current"
          autoComplete="current-password"
          required
        />
      </Field>
      <Field label={t.next} help={t.nextHelp} error={errors.of("new_password")} required>
        <PasswordInput
          value={next}
          onValue={setNext}
          name="new"
          autoComplete="new-password"
          required
          minLength={8}
          maxLength={256}
        />
      </Field>
      {errors.rest !== undefined && !wrong && <ErrorNote error={errors.rest} />}
      <Button type="submit" className="self-start" busy={change.isPending}>
        {t.changePassword}
      </Button>
    </form>
  );
}
