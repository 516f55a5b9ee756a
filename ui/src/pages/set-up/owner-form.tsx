import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { ApiError } from "@/api/errors";
import { useBootstrapOwner, useSignIn } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Progress } from "@/kit/bars";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { PasswordInput, TextInput } from "@/kit/inputs";
import { Link } from "@/kit/link";
import { type Strength, strengthOf } from "./strength";
import { useT } from "./t";

const SHARE: Record<Strength, number> = { weak: 0.2, fair: 0.45, good: 0.7, strong: 1 };
const TONE = { weak: "bad", fair: "warn", good: "accent", strong: "ok" } as const;

/** Makes the first owner, and signs them in. */
export function OwnerForm({ token: given }: { token: string }) {
  const t = useT();
  const c = useCommonT();
  const navigate = useNavigate();
  const make = useBootstrapOwner();
  const signIn = useSignIn();
  const [org, setOrg] = useState("");
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState(given);
  const errors = formErrors(make.error, ["org_name", "username", "password", "setup_token"]);
  const wrongToken =
    make.error instanceof ApiError && make.error.code === "setup_token_required"
      ? make.error.message
      : undefined;
  const asksToken = given !== "" || wrongToken !== undefined;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await make.mutateAsync({ username, password, org_name: org, setup_token: token || undefined });
      await signIn.mutateAsync({ username, password });
      await navigate({ to: "/", hash: "", replace: true });
    } catch {
      // The form shows it.
    }
  };
  const strength = strengthOf(password);
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-4">
      <p className="text-ink-2">{t.lead}</p>
      <Field label={t.organisation} help={t.organisationHelp} error={errors.of("org_name")} required>
        <TextInput
          value={org}
          onValue={setOrg}
          name="org_name"
          autoComplete="organization"
          required
          maxLength={100}
          autoFocus
        />
      </Field>
      <Field label={c.word.userName} error={errors.of("username")} required>
        <TextInput
          value={username}
          onValue={setUsername}
          name="username"
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          required
          maxLength={64}
        />
      </Field>
      <Field label={c.word.password} help={t.passwordHelp} error={errors.of("password")} required>
        <PasswordInput
          value={password}
          onValue={setPassword}
          name="password"
          autoComplete="new-password"
          required
          minLength={8}
          maxLength={256}
        />
      </Field>
      {password && (
        <Progress
          thin
          value={SHARE[strength]}
          label={t.strength.label}
          text={t.strength[strength]}
          tone={TONE[strength]}
        />
      )}
      {asksToken && (
        <Field label={t.token} help={t.tokenHelp} error={wrongToken ?? errors.of("setup_token")}>
          <TextInput
            value={token}
            onValue={setToken}
            name="setup_token"
            autoComplete="off"
            spellCheck={false}
            mono
          />
        </Field>
      )}
      {errors.rest !== undefined && !wrongToken && <ErrorNote error={errors.rest} />}
      {signIn.error && (
        <div role="alert" className="text-sm text-warn">
          {t.noCookie} <Link to="/login">{t.signInNow}</Link>
        </div>
      )}
      <Button type="submit" look="primary" size="lg" busy={make.isPending || signIn.isPending}>
        {t.create}
      </Button>
    </form>
  );
}
