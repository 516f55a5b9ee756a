import { useLocation } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { ApiError } from "@/api/errors";
import { GatewayCard } from "@/app/gateway-card";
import { tellTabs } from "@/app/other-tabs";
import { useSetPasswordByLink } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { PasswordInput } from "@/kit/inputs";
import { claimKept } from "@/kit/kept";
import { ButtonLink, Link } from "@/kit/link";
import { useT } from "./t";

/** Where a one-time link leads: an invitation, or a way to a new password. */
export default function Page() {
  const t = useT();
  // The link may be opened in a tab that is here already: only what stands behind `#` changes then.
  const { hash } = useLocation();
  const token = /^gtl_[0-9A-Za-z]+$/.test(hash) ? hash : "";
  return (
    <GatewayCard title={t.title}>{token ? <LinkForm key={token} token={token} /> : <Ended />}</GatewayCard>
  );
}

function LinkForm({ token }: { token: string }) {
  const t = useT();
  const c = useCommonT();
  const redeem = useSetPasswordByLink();
  const [password, setPassword] = useState("");
  const errors = formErrors(redeem.error, ["password"]);
  const code = redeem.error instanceof ApiError ? redeem.error.code : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const onSuccess = ({ username }: { username: string }) => {
      claimKept(username);
      tellTabs({ say: "in", username });
      // By a load anew: somebody else may have been signed in here, and the link leaves the address.
      location.replace("/ui/");
    };
    redeem.mutate({ token, password }, { onSuccess });
  };
  if (code === "invalid_credentials") return <Ended />;
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-4">
      <p className="text-ink-2">{t.lead}</p>
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
      {code === "no_cookie" ? (
        <div role="alert" className="text-sm text-warn">
          {t.noCookie} <Link to="/login">{t.signIn}</Link>
        </div>
      ) : (
        errors.rest !== undefined && <ErrorNote error={errors.rest} />
      )}
      <Button type="submit" look="primary" size="lg" busy={redeem.isPending}>
        {t.set}
      </Button>
    </form>
  );
}

function Ended() {
  const t = useT();
  return (
    <>
      <div role="alert" className="flex flex-col gap-2">
        <p className="font-medium">{t.ended}</p>
        <p className="text-ink-2">{t.endedText}</p>
      </div>
      <ButtonLink to="/login" look="primary" size="lg">
        {t.signIn}
      </ButtonLink>
    </>
  );
}
