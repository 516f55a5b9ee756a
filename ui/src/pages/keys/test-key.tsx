import { PlugZap } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useTestKey } from "@/data/keys";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { PasswordInput } from "@/kit/inputs";
import { useT } from "./t";
import { useModelsOf } from "./use-it";

type TestKeyProps = {
  models: string[] | null;
  prefix: string;
  /** The token, where it is known; else it is asked for. */
  token?: string;
};

/** Sends a request with the key, from this browser, and shows what came back. */
export function TestKey({ models, prefix, token }: TestKeyProps) {
  const t = useT();
  const format = useFormat();
  const test = useTestKey();
  const [typed, setTyped] = useState("");
  const model = useModelsOf(models).all.find((it) => it.callable)?.served_name ?? null;
  const sent = (token ?? typed).trim();
  const other = sent !== "" && !sent.startsWith(prefix);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (sent !== "" && !other) test.mutate({ token: sent, model });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-3">
      {token === undefined && (
        <Field
          label={t.test.token}
          help={t.test.tokenHelp}
          error={other && typed.length >= prefix.length ? t.test.wrongKey : undefined}
        >
          <PasswordInput value={typed} onValue={setTyped} autoComplete="off" placeholder={`${prefix}…`} />
        </Field>
      )}
      <Button
        type="submit"
        icon={PlugZap}
        className="self-start"
        busy={test.isPending}
        disabled={sent === "" || other}
      >
        {t.test.run}
      </Button>
      <div aria-live="polite" className="text-sm">
        {test.data && (
          <div className="flex flex-col gap-1">
            <p className="flex items-center gap-2">
              <StateShape tone="ok" className="text-ok" />
              {test.data.text === null ? t.test.noModel : t.test.works(format.duration(test.data.ms))}
            </p>
            {test.data.text && model && (
              <blockquote className="border-line-strong border-l-2 pl-3 text-ink-2">
                {t.test.answered(model)} {test.data.text}
              </blockquote>
            )}
          </div>
        )}
        {test.error && <ErrorNote error={test.error} />}
      </div>
    </form>
  );
}
