import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { ApiError } from "@/api/errors";
import { GatewayCard } from "@/app/gateway-card";
import { tellTabs } from "@/app/other-tabs";
import { signedOut } from "@/app/signed-out";
import { useSignIn } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { PasswordInput, TextInput } from "@/kit/inputs";
import { claimKept } from "@/kit/kept";
import { Prose } from "@/parts/models/prose";
import { NoCookie } from "./no-cookie";
import { useT } from "./t";

export default function Page() {
  const t = useT();
  const c = useCommonT();
  const navigate = useNavigate();
  const { to } = useSearch({ strict: false });
  const signIn = useSignIn();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const code = signIn.error instanceof ApiError ? signIn.error.code : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const done = () => {
      claimKept(username);
      signedOut(false);
      tellTabs({ say: "in", username });
      // Only a page of this interface: a link of somebody else must not lead elsewhere after the sign-in.
      void (to && /^\/(?![/\\])/.test(to)
        ? navigate({ href: to, replace: true })
        : navigate({ to: "/", replace: true }));
    };
    signIn.mutate({ username, password }, { onSuccess: done });
  };
  return (
    <GatewayCard title={c.page.login}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field label={c.word.userName} required>
          <TextInput
            value={username}
            onValue={setUsername}
            name="username"
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            required
            autoFocus
          />
        </Field>
        <Field label={c.word.password} required>
          <PasswordInput
            value={password}
            onValue={setPassword}
            name="password"
            autoComplete="current-password"
            required
          />
        </Field>
        {code === "no_cookie" ? (
          <NoCookie />
        ) : (
          signIn.error && (
            <ErrorNote error={code === "invalid_credentials" ? new Error(t.wrong) : signIn.error} />
          )
        )}
        <Button type="submit" look="primary" size="lg" busy={signIn.isPending}>
          {c.do.signIn}
        </Button>
        <p className="text-ink-3 text-sm">
          <Prose asIs text={t.help} />
        </p>
      </form>
    </GatewayCard>
  );
}
