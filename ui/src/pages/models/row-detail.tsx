import type { Upstream } from "@/api/types";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Facts } from "@/kit/facts";
import { ButtonLink } from "@/kit/link";
import { RelativeTime } from "@/kit/text";
import { Failure } from "@/parts/models/failure";
import { StartProgress } from "@/parts/models/start-progress";
import { useT as useModelT } from "@/parts/models/t";
import type { Row } from "./rows";
import { useT } from "./t";

/** What opens below a row: a start's progress, why it failed, the record in short, or the probes of an engine elsewhere. */
export function RowDetail({ row }: { row: Row }) {
  const c = useCommonT();
  const m = useModelT();
  if (row.kind === "entry") return <Probes probes={row.probes} />;
  const { model } = row;
  if (model.state === "failed") return <Failure model={model} />;
  if (model.state === "starting" || model.state === "loading") return <StartProgress model={model} />;
  const params = { id: row.key };
  return (
    <div className="flex flex-wrap items-start justify-between gap-4">
      <Facts
        facts={[
          [c.word.name, model.name],
          [m.settings.groups.source, model.local_path ?? model.repo_id ?? "–"],
          ...(model.engine_image ? ([[m.check.image, model.engine_image]] as [string, string][]) : []),
        ]}
      />
      <ButtonLink to="/models/$id" params={params} search={{ tab: "logs" }} size="sm">
        {c.do.viewLogs}
      </ButtonLink>
    </div>
  );
}

function Probes({ probes }: { probes: Upstream[] }) {
  const t = useT();
  const format = useFormat();
  if (probes.length === 0) return <p className="text-ink-2 text-sm">{t.noProbe}</p>;
  return (
    <div className="flex flex-col gap-4">
      {probes.map((it) => (
        <div key={it.url} className="flex min-w-0 flex-col gap-2">
          <p className="break-all font-mono text-sm">{it.url}</p>
          <Facts
            facts={[
              [t.history, <History key="history" of={it.history} />],
              [t.lastOk, <RelativeTime key="ok" at={it.last_ok_at} />],
              [t.latency, it.latency_ms === null ? "–" : format.duration(it.latency_ms)],
              [t.inFlight, format.integer(it.in_flight)],
              [t.listed, it.models.join(", ") || "–"],
              [t.lastError, it.last_error ?? "–"],
            ]}
          />
        </div>
      ))}
    </div>
  );
}

/** The newest probes as bars, the oldest first: a tall one was answered, a short one was not. */
function History({ of }: { of: Upstream["history"] }) {
  const t = useT();
  const format = useFormat();
  return (
    <ol aria-label={t.history} className="inline-flex h-4 items-end gap-0.5 align-middle">
      {of.slice(-60).map((probe) => (
        <li
          key={probe.ts}
          title={t.probe(
            format.time(probe.ts),
            probe.ok ? t.probeOk(format.duration(probe.latency_ms ?? 0)) : (probe.error ?? ""),
          )}
          className={probe.ok ? "h-4 w-1.5 rounded-sm bg-ok-solid" : "h-2 w-1.5 rounded-sm bg-bad-solid"}
        />
      ))}
    </ol>
  );
}
