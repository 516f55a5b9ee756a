import { type FormEvent, useRef, useState } from "react";
import { isAbort, NetworkError } from "@/api/errors";
import type { Parameter } from "@/data/openapi";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { ErrorNote, RequestId } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { TextInput } from "@/kit/inputs";
import { Panel } from "@/kit/panel";
import { Select } from "@/kit/select";
import type { Operation } from "./operations";
import { useT } from "./t";
import { addressOf, MOST, type Tried, tryGet } from "./try-request";

/** Sends an operation that changes nothing, with the session, and shows the answer. */
export function TryIt({ operation }: { operation: Operation }) {
  const t = useT().try;
  const parameters = (operation.parameters ?? []).filter((it) => it.in === "path" || it.in === "query");
  const [values, setValues] = useState<Record<string, string>>({});
  const [tried, setTried] = useState<Tried | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController>(null);
  const address = addressOf(
    operation.path,
    values,
    Object.fromEntries(
      parameters.filter((it) => it.in === "query").map((it) => [it.name, values[it.name] ?? ""]),
    ),
  );
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const own = new AbortController();
    abort.current = own;
    setBusy(true);
    setError(null);
    try {
      setTried(await tryGet(address, own.signal));
    } catch (caught) {
      if (!isAbort(caught)) setError(new NetworkError(String(caught)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title={t.title}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="max-w-[72ch] text-ink-2 text-sm">{t.lead}</p>
        {parameters.length > 0 && (
          <div className="grid gap-4 sm:grid-cols-2 xl:grid-cols-3">
            {parameters.map((it) => (
              <ParameterField
                key={it.name}
                parameter={it}
                value={values[it.name] ?? ""}
                onValue={(to) => setValues({ ...values, [it.name]: to })}
              />
            ))}
          </div>
        )}
        <div className="flex flex-wrap items-center gap-3">
          {busy ? (
            <Button onClick={() => abort.current?.abort()}>{t.stop}</Button>
          ) : (
            <Button type="submit" look="primary">
              {t.send}
            </Button>
          )}
          <code className="min-w-0 break-all font-mono text-ink-2 text-xs">GET {address}</code>
        </div>
        {error !== null && <ErrorNote error={error} />}
      </form>
      {tried && <Answered tried={tried} />}
    </Panel>
  );
}

type FieldProps = { parameter: Parameter; value: string; onValue: (to: string) => void };

function ParameterField({ parameter, value, onValue }: FieldProps) {
  const required = parameter.required ?? false;
  const words = parameter.schema?.enum?.map(String);
  return (
    <Field label={parameter.name} required={required} optional={!required}>
      {words ? (
        <Select
          value={value}
          onValue={onValue}
          options={["", ...words].map((it) => ({ value: it, label: it || "–" }))}
        />
      ) : (
        <TextInput
          value={value}
          onValue={onValue}
          mono
          required={required}
          placeholder={parameter.schema?.default === undefined ? "" : String(parameter.schema.default)}
          autoComplete="off"
          spellCheck={false}
        />
      )}
    </Field>
  );
}

function Answered({ tried }: { tried: Tried }) {
  const t = useT();
  const format = useFormat();
  return (
    <div aria-live="polite" className="mt-4 flex flex-col gap-2 border-line border-t pt-4">
      <div className="flex flex-wrap items-center gap-3 text-sm">
        <StateBadge state={tried.ok ? "ok" : "error"}>
          {t.try.status(String(tried.status), format.duration(tried.ms))}
        </StateBadge>
        {tried.total !== null && (
          <span className="text-ink-2">
            {t.try.total} {tried.total}
          </span>
        )}
        {tried.requestId && <RequestId id={tried.requestId} />}
      </div>
      {tried.text ? (
        <CodeBlock snippets={[{ id: "answer", label: t.answer, code: tried.text }]} />
      ) : (
        <p className="text-ink-3 text-sm">{t.try.empty}</p>
      )}
      {tried.cut && <p className="text-ink-3 text-sm">{t.try.cut(format.bytes(MOST))}</p>}
    </div>
  );
}
