import { ArrowLeft } from "lucide-react";
import { useMemo } from "react";
import type { Role } from "@/api/types";
import type { ApiDocument, MediaType, Parameter } from "@/data/openapi";
import { hasRole, useMe } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { CopyButton } from "@/kit/copy";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { Answers } from "./answers";
import { Method } from "./method";
import type { Operation } from "./operations";
import { Prose } from "./prose";
import { FieldLine, SchemaView } from "./schema-view";
import { snippetsOf } from "./snippets";
import { useT } from "./t";
import { TryIt } from "./try-it";

type Props = { operation: Operation; document: ApiDocument; onBack: () => void };

/** All about one operation: who may call it, what it takes and answers, how it is called. */
export function OperationDetail({ operation, document, onBack }: Props) {
  const t = useT();
  const snippets = useMemo(() => snippetsOf(operation, location.origin), [operation]);
  const may = useMayCall(operation);
  const parameters = operation.parameters ?? [];
  const bodies = Object.entries(operation.requestBody?.content ?? {});
  return (
    <article className="flex min-w-0 flex-col gap-4">
      <div className="lg:hidden">
        <Button icon={ArrowLeft} size="sm" onClick={onBack}>
          {t.backToList}
        </Button>
      </div>
      <Panel>
        <h2 className="font-semibold text-lg">{operation.summary ?? operation.operationId}</h2>
        <p className="mt-1.5 flex flex-wrap items-center gap-2">
          <Method of={operation.method} />
          <code className="break-all font-mono text-sm">{operation.path}</code>
          <CopyButton text={operation.path} />
        </p>
        <Prose text={operation.description} className="mt-3 text-ink-2" />
        <div className="mt-4">
          <Access operation={operation} may={may} />
        </div>
      </Panel>
      {parameters.length > 0 && <Parameters parameters={parameters} document={document} />}
      {bodies.map(([type, media]) => (
        <BodyPanel key={type} type={type} media={media} document={document} />
      ))}
      <Panel title={t.call}>
        <CodeBlock snippets={snippets} label={t.snippets} />
      </Panel>
      {operation.method === "GET" && may && <TryIt operation={operation} />}
      <Answers operation={operation} document={document} />
    </article>
  );
}

function useMayCall(operation: Operation): boolean {
  const me = useMe();
  const role = operation["x-gantry-role"];
  return !role || (me !== null && hasRole(me.role, role as Role));
}

function Access({ operation, may }: { operation: Operation; may: boolean }) {
  const t = useT();
  const c = useCommonT();
  const role = operation["x-gantry-role"];
  if (!role) return <p className="text-ink-2 text-sm">{t.everybody}</p>;
  const roles: Record<string, string> = c.role;
  const name = roles[role] ?? role;
  const scope = operation["x-gantry-scope"];
  return (
    <>
      <Facts
        facts={[
          [t.role, name],
          [
            t.scope,
            scope ? (
              <code key="scope" className="font-mono text-xs">
                {scope}
              </code>
            ) : (
              t.noScope
            ),
          ],
        ]}
      />
      {!may && <p className="mt-2 text-sm text-warn">{t.mayNot(name)}</p>}
    </>
  );
}

function Parameters({ parameters, document }: { parameters: Parameter[]; document: ApiDocument }) {
  const t = useT();
  const places: Record<string, string> = t.in;
  return (
    <Panel title={t.parameters} flush>
      <ul className="text-sm">
        {parameters.map((it) => (
          <li key={`${it.in} ${it.name}`} className="border-line border-b px-4 py-2 last:border-b-0">
            <div className="flex gap-3">
              <div className="min-w-0 flex-1">
                <FieldLine
                  name={it.name}
                  required={Boolean(it.required)}
                  schema={{ ...it.schema, description: it.description }}
                  document={document}
                />
              </div>
              <span className="shrink-0 text-ink-3 text-xs">{places[it.in] ?? it.in}</span>
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

type BodyProps = { type: string; media: MediaType; document: ApiDocument };

function BodyPanel({ type, media, document }: BodyProps) {
  const t = useT();
  return (
    <Panel title={t.body} note={type}>
      <div className="flex flex-col gap-4">
        {media.schema && <SchemaView document={document} schema={media.schema} />}
        {media.example !== undefined && (
          <CodeBlock
            snippets={[{ id: "example", label: t.example, code: JSON.stringify(media.example, null, 2) }]}
          />
        )}
      </div>
    </Panel>
  );
}
