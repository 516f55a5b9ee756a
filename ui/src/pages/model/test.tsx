import { FlaskConical } from "lucide-react";
import type { Model } from "@/api/types";
import { useTestModel } from "@/data/model-detail";
import { useMay } from "@/data/session";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { ErrorNote } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { RelativeTime } from "@/kit/text";
import { useT } from "./t";

const json = (value: unknown) => JSON.stringify(value, null, 2) ?? "null";

/** One small request to the engine: what was sent, what came back, and how long it took. */
export function Test({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const may = useMay();
  const test = useTestModel();
  const { data } = test;
  const running = model.state === "running";
  return (
    <Panel>
      <div className="flex flex-col gap-4">
        <div className="flex flex-wrap items-center gap-3">
          {may("testModel") && (
            <Button
              look="primary"
              icon={FlaskConical}
              busy={test.isPending}
              disabled={!running}
              onClick={() => test.mutate(model.id)}
            >
              {t.test.run}
            </Button>
          )}
          <p className="text-ink-2 text-sm">{running ? t.test.text : t.test.notRunning}</p>
        </div>
        {test.error && <ErrorNote error={test.error} />}
        {data && (
          <>
            <p aria-live="polite" className="flex flex-wrap items-center gap-2 text-sm">
              <StateBadge state={data.success ? "ok" : "error"}>
                {data.success ? t.test.ok : t.test.failed}
              </StateBadge>
              {t.test.took(format.duration(data.latency_ms))}
              <span className="text-ink-2">{t.test.kind[data.test_type]}</span>
              <RelativeTime at={data.timestamp} className="text-ink-2" />
            </p>
            {data.error && <p className="break-words text-bad text-sm">{data.error}</p>}
            <div className="grid gap-4 lg:grid-cols-2">
              <CodeBlock snippets={[{ id: "request", label: t.test.request, code: json(data.request) }]} />
              <CodeBlock snippets={[{ id: "response", label: t.test.response, code: json(data.response) }]} />
            </div>
          </>
        )}
      </div>
    </Panel>
  );
}
