import { Power } from "lucide-react";
import type { Model } from "@/api/types";
import { useModelEvents } from "@/data/model-detail";
import { usePulls } from "@/data/models";
import { useFormat } from "@/i18n";
import { useDiagnosed } from "@/i18n/gateway";
import { Badge, StateBadge } from "@/kit/badge";
import { useNow } from "@/kit/clock";
import { Tooltip } from "@/kit/tooltip";
import { useT as useModelT } from "@/parts/models/t";
import { contextOf, type Row, stateOf } from "./rows";
import { useT } from "./t";

/** The state, with what is more to know: how much of an image is pulled, that settings wait, that they were rolled back. */
export function StateCell({ row }: { row: Row }) {
  const t = useT();
  const format = useFormat();
  const pulls = usePulls();
  const pull = row.kind === "model" ? pulls[row.model.id] : undefined;
  const state = stateOf(row);
  const share = pull && pull.known > 0 ? format.percent(Math.round((pull.done / pull.known) * 100)) : null;
  const breaker = row.kind === "entry" && row.entry.breaker !== "closed" ? row.entry.breaker : null;
  const model = row.kind === "model" ? row.model : undefined;
  return (
    <span className="flex flex-wrap items-center gap-x-1.5 gap-y-1">
      <span className="flex items-center gap-1.5">
        <StateBadge state={state}>{share && <StateWord state={state} share={share} />}</StateBadge>
        {model?.autostart && (
          <Tooltip text={t.autostart}>
            <span role="img" aria-label={t.autostart} title={t.autostart}>
              <Power aria-hidden className="size-3.5 text-ink-2" />
            </span>
          </Tooltip>
        )}
      </span>
      {model?.needs_apply && (
        <Tooltip text={model.needs_apply_reason ?? t.needsApplyWhy}>
          <button type="button" className="rounded-full">
            <Badge tone="warn">{t.needsApply}</Badge>
          </button>
        </Tooltip>
      )}
      {model?.rolled_back && <Badge tone="warn">{t.rolledBack}</Badge>}
      {model?.archived && <Badge>{t.archivedBadge}</Badge>}
      {breaker && <Badge tone="warn">{t.breaker(breaker)}</Badge>}
    </span>
  );
}

function StateWord({ state, share }: { state: ReturnType<typeof stateOf>; share: string }) {
  const m = useModelT();
  return (
    <>
      {m.start.phases[state === "loading" ? "weights" : "image"]} {share}
    </>
  );
}

/** The engine, or that somebody else runs it. */
export function EngineCell({ row }: { row: Row }) {
  const t = useT();
  const m = useModelT();
  const engine = row.kind === "model" ? row.model.engine_type : row.entry.engine_type;
  return (
    <span className="flex items-center gap-1.5 whitespace-nowrap text-ink-2">
      {row.kind === "entry" ? (
        <>
          <Badge>{t.elsewhere}</Badge>
          <span className="max-w-48 truncate" title={row.entry.urls.join("\n")}>
            {row.entry.urls.length > 1
              ? t.addresses(row.entry.urls.length)
              : row.entry.url.replace(/^https?:\/\//, "")}
          </span>
        </>
      ) : (
        `${engine ? m.engine[engine] : ""} · ${m.task[row.model.task]}`
      )}
      {row.kind === "model" && row.model.simulator && <Badge>{m.simulator}</Badge>}
    </span>
  );
}

export function ContextCell({ row }: { row: Row }) {
  const t = useT();
  const format = useFormat();
  if (row.kind === "entry") return "–";
  const context = contextOf(row.model);
  return context === null ? <span className="text-ink-3">{t.ownContext}</span> : format.integer(context);
}

export function GpusCell({ row }: { row: Row }) {
  const t = useT();
  if (row.kind === "entry") return "–";
  const { device, selected_gpus: gpus } = row.model;
  return device === "cpu" ? t.cpu : gpus ? gpus.join(", ") : t.allGpus;
}

/** Why a model failed, or the last error of an entry's addresses. */
export function ErrorCell({ row }: { row: Row }) {
  const diagnosed = useDiagnosed();
  const error =
    row.kind === "entry"
      ? row.probes.find((it) => it.last_error)?.last_error
      : row.model.diagnosis
        ? diagnosed(row.model.diagnosis).title
        : row.model.state_reason;
  return error ? (
    <span className="block max-w-32 truncate text-ink-2 2xl:max-w-72" title={error}>
      {error}
    </span>
  ) : (
    <span className="text-ink-3">–</span>
  );
}

/** Since when a model runs, from its newest change of state. */
export function Uptime({ model }: { model: Model }) {
  const format = useFormat();
  const now = useNow();
  const { data } = useModelEvents(model.id, model.state, 1);
  const last = data?.[0];
  if (last?.to !== "running") return "–";
  const ms = Math.max(0, now - Date.parse(last.at));
  const step = ms < 60_000 ? 1000 : 60_000;
  return (
    <span title={format.dateTime(last.at)} className="whitespace-nowrap">
      {format.duration(Math.floor(ms / step) * step)}
    </span>
  );
}
