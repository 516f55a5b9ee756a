import type { ReactNode } from "react";
import type { Model } from "@/api/types";
import { useStateSince } from "@/data/model-detail";
import { useUsageRows } from "@/data/usage";
import { useT as useCommonT, useFormat } from "@/i18n";
import { useDiagnosed } from "@/i18n/gateway";
import { StateShape } from "@/kit/badge";
import { ErrorState } from "@/kit/error-state";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { RelativeTime } from "@/kit/text";
import { type Failed, newestOf } from "./newest";
import { useT } from "./t";

/** How many failures are shown, and among how many rows like ones are looked for. */
const SHOWN = 8;
const ROWS = 50;

/** Models that failed, and the newest requests that an engine failed at, each with the way to the cause. */
export function Failures({ models = [] }: { models?: Model[] }) {
  const t = useT();
  const diagnosed = useDiagnosed();
  const rows = useUsageRows({ status: "5xx", limit: ROWS, hours: 24 }, { refetchInterval: 10_000 });
  const failed = useStateSince(models.filter((it) => it.state === "failed").slice(0, SHOWN));
  const none = failed.length === 0 && rows.data?.items.length === 0;
  const newest = newestOf(failed, rows.data?.items ?? []).slice(0, SHOWN);
  return (
    <Panel
      title={t.failures.title}
      flush
      actions={
        <Link to="/usage" search={{ status: "5xx" }} className="text-sm">
          {t.failures.all}
        </Link>
      }
    >
      {rows.error && !rows.data ? (
        <ErrorState error={rows.error} onRetry={rows.refetch} />
      ) : none ? (
        <p className="px-4 py-3 text-ink-3 text-sm">{t.failures.none}</p>
      ) : (
        <ul aria-label={t.failures.title}>
          {newest.map((it) =>
            it.kind === "model" ? (
              <OfModel
                key={`model ${it.model.id}`}
                model={it.model}
                why={it.model.diagnosis ? diagnosed(it.model.diagnosis).title : it.model.state_reason}
                at={it.at}
              />
            ) : (
              <OfRequests key={it.row.id} of={it} />
            ),
          )}
        </ul>
      )}
    </Panel>
  );
}

function Line({ what, why, at, way }: { what: ReactNode; why: ReactNode; at?: string; way: ReactNode }) {
  return (
    <li className="flex items-start gap-2.5 border-line border-b px-4 py-2 text-sm last:border-b-0">
      <StateShape tone="bad" className="mt-1 text-bad" />
      <div className="min-w-0 flex-1">
        <p className="break-words font-medium">{what}</p>
        <p className="line-clamp-2 break-words text-ink-2">{why}</p>
      </div>
      {at && <RelativeTime at={at} className="text-ink-3" />}
      {way}
    </li>
  );
}

function OfModel({ model, why, at }: { model: Model; why: string | null; at: string | undefined }) {
  const t = useT();
  return (
    <Line
      what={t.failures.model(model.served_name)}
      why={why}
      at={at}
      way={
        <Link to="/models/$id" params={{ id: String(model.id) }} search={{ tab: "logs", why: "1" }}>
          {t.failures.logs}
        </Link>
      }
    />
  );
}

function OfRequests({ of: { row, count, at } }: { of: Failed & { kind: "requests" } }) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const same = count > 1 ? ` · ${t.failures.times(format.integer(count))}` : "";
  return (
    <Line
      what={t.failures.request(row.status_code, row.model_name || t.failures.noModel)}
      why={`${row.endpoint} · ${c.outcome[row.outcome]}${same}`}
      at={at}
      way={
        <Link to="/usage" search={{ status: "5xx", model: row.model_name || undefined, request: row.id }}>
          {t.failures.usage}
        </Link>
      }
    />
  );
}
