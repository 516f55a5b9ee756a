import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { sessionKeys } from "@/data/query-keys";
import { useMe, useSignIn } from "@/data/session";
import { useT } from "@/i18n";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { PasswordInput, TextInput } from "@/kit/inputs";
import { tellTabs } from "./other-tabs";
import { signedOut, useSignedOut } from "./signed-out";

/** Asks to sign in again over the page, which stays as it is: nothing that was typed is lost. */
export function SignInAgain() {
  const out = useSignedOut();
  const me = useMe();
  if (!out || !me) return null;
  return <Asking username={me.username} />;
}

function Asking({ username }: { username: string }) {
  const t = useT();
  const form = useId();
  const client = useQueryClient();
  const signIn = useSignIn();
  const [password, setPassword] = useState("");
  const again = () => {
    signedOut(false);
    tellTabs({ say: "in", username });
    void client.invalidateQueries();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // A dialog is outside of the form of the page, but React tells the page of it.
    event.stopPropagation();
    signIn.mutate({ username, password }, { onSuccess: again });
  };
  const asOther = () => {
    client.setQueryData(sessionKeys.me, null);
    location.assign("/ui/login");
  };
  return (
    <Dialog
      open
      stays
      onClose={() => {}}
      title={t.signedOut.title}
      description={t.signedOut.text}
      footer={
        <>
          <Button onClick={asOther} className="mr-auto" look="quiet">
            {t.signedOut.other}
          </Button>
          <Button type="submit" form={form} look="primary" busy={signIn.isPending}>
            {t.do.signIn}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} className="flex flex-col gap-4">
        <Field label={t.word.userName}>
          <TextInput value={username} onValue={() => {}} readOnly autoComplete="username" name="username" />
        </Field>
        <Field label={t.word.password} required>
          <PasswordInput
            value={password}
            onValue={setPassword}
            autoComplete="current-password"
            name="password"
            required
            autoFocus
          />
        </Field>
        {signIn.error && <ErrorNote error={signIn.error} />}
      </form>
    </Dialog>
  );
}
