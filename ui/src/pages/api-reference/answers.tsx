import type { ApiDocument, ApiResponse } from "@/data/openapi";
import { Badge } from "@/kit/badge";
import { CodeBlock } from "@/kit/code-block";
import { Panel } from "@/kit/panel";
import { Tabs } from "@/kit/tabs";
import { type Operation, resolveResponse } from "./operations";
import { Prose } from "./prose";
import { SchemaView } from "./schema-view";
import { useT } from "./t";

/** What an operation answers, by status; the successful one is open. */
export function Answers({ operation, document }: { operation: Operation; document: ApiDocument }) {
  const t = useT();
  const all = Object.entries(operation.responses).sort(
    ([a], [b]) => Number(!a.startsWith("2")) - Number(!b.startsWith("2")) || a.localeCompare(b),
  );
  return (
    <Panel title={t.answers}>
      <Tabs
        label={t.answers}
        param="status"
        tabs={all.map(([status, it]) => ({
          id: status,
          label: <Badge tone={status.startsWith("2") ? "ok" : "idle"}>{status}</Badge>,
          content: <Answer response={resolveResponse(document, it)} document={document} />,
        }))}
      />
    </Panel>
  );
}

function Answer({ response, document }: { response: ApiResponse; document: ApiDocument }) {
  const t = useT();
  const contents = Object.entries(response.content ?? {});
  return (
    <div className="flex flex-col gap-4">
      <Prose text={response.description} className="text-ink-2 text-sm" />
      {contents.length === 0 && <p className="text-ink-3 text-sm">{t.noContent}</p>}
      {contents.map(([type, media]) => (
        <div key={type} className="flex flex-col gap-3">
          <p className="font-mono text-ink-3 text-xs">{type}</p>
          {media.schema && <SchemaView document={document} schema={media.schema} />}
          {media.example !== undefined && (
            <CodeBlock
              snippets={[
                {
                  id: "example",
                  label: t.example,
                  code:
                    typeof media.example === "string"
                      ? media.example
                      : JSON.stringify(media.example, null, 2),
                },
              ]}
            />
          )}
        </div>
      ))}
    </div>
  );
}
