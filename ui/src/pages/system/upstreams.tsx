import { ChevronDown, ChevronRight, RefreshCw } from "lucide-react";
import type { Upstream } from "@/api/types";
import { useModels } from "@/data/models";
import { useMay } from "@/data/session";
import { useRefreshUpstreams, useUpstreams } from "@/data/upstreams";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button, IconButton } from "@/kit/button";
import { cn } from "@/kit/cn";
import { EmptyState } from "@/kit/empty-state";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { Middle } from "@/kit/text";
import { toast, toastError } from "@/kit/toast";
import { useUrlState } from "@/kit/url-state";
import { useT } from "./t";
import { UpstreamDetail } from "./upstream-detail";

const keyOf = (it: Upstream) => `${it.served_name} ${it.url ?? ""}`;
/** From this number on only the rows in sight are drawn. */
const MANY = 200;

/** Every address that answers a route: its health, its breaker, its last probes. */
export function Upstreams() {
  const t = useT().upstreams;
  const format = useFormat();
  const may = useMay();
  const upstreams = useUpstreams();
  const refresh = useRefreshUpstreams();
  const [open, setOpen] = useUrlState("upstream");
  const probe = (names?: string[]) =>
    refresh.mutate(names, {
      onSuccess: (all) => toast(all.length === 1 ? t.refreshedOne : t.refreshed(format.integer(all.length))),
      onError: (error) => toastError(error),
    });
  const mayProbe = may("refreshUpstreams");
  return (
    <Panel
      title={t.title}
      flush
      actions={
        mayProbe &&
        Boolean(upstreams.data?.length) && (
          <Button size="sm" icon={RefreshCw} busy={refresh.isPending} onClick={() => probe()}>
            {t.refresh}
          </Button>
        )
      }
    >
      <Table
        label={t.title}
        columns={useColumns(open, setOpen)}
        list={upstreams}
        rowKey={keyOf}
        empty={<EmptyState title={t.none} command="gantry upstreams" />}
        virtualHeight={(upstreams.data?.length ?? 0) > MANY ? 480 : undefined}
        expanded={(it) => (keyOf(it) === open ? <UpstreamDetail upstream={it} /> : undefined)}
        actions={
          mayProbe
            ? (it) => (
                <IconButton
                  icon={RefreshCw}
                  label={t.refreshOne}
                  size="sm"
                  disabled={refresh.isPending}
                  onClick={() => probe([it.served_name])}
                />
              )
            : undefined
        }
      />
    </Panel>
  );
}

function useColumns(open: string, setOpen: (to: string) => void): Column<Upstream>[] {
  const t = useT().upstreams;
  const format = useFormat();
  const models = useModels().data;
  // A model that does not run is what its own page says: it may have failed, or be starting.
  const ofModel = (it: Upstream) =>
    it.source === "managed"
      ? models?.find((model) => model.served_name === it.served_name)?.state
      : undefined;
  const stateOf = (it: Upstream) =>
    it.url === null ? (ofModel(it) ?? "stopped") : it.healthy ? "healthy" : "unhealthy";
  return [
    {
      id: "name",
      head: t.name,
      width: "30%",
      cell: (it) => {
        const shown = keyOf(it) === open;
        const Icon = shown ? ChevronDown : ChevronRight;
        return (
          <button
            type="button"
            aria-expanded={shown}
            aria-label={shown ? t.close(it.served_name) : t.open(it.served_name)}
            onClick={() => setOpen(shown ? "" : keyOf(it))}
            className="-ml-1 flex max-w-44 md:max-w-56 items-center gap-1 rounded-sm font-medium"
          >
            <Icon aria-hidden className="size-4 shrink-0 text-ink-3" />
            <Middle text={it.served_name} />
          </button>
        );
      },
    },
    {
      id: "state",
      head: t.state,
      cell: (it) => <StateBadge state={stateOf(it)} />,
    },
    { id: "breaker", head: t.breaker, wide: true, cell: (it) => <Breaker upstream={it} /> },
    {
      id: "latency",
      head: t.latency,
      numeric: true,
      wide: true,
      cell: (it) => (it.latency_ms === null ? "–" : format.duration(it.latency_ms)),
    },
    { id: "history", head: t.history, wide: true, cell: (it) => <Probes history={it.history} /> },
    { id: "flight", head: t.inFlight, numeric: true, wide: true, cell: (it) => format.integer(it.in_flight) },
  ];
}

function Breaker({ upstream: { breaker } }: { upstream: Upstream }) {
  const t = useT().upstreams;
  const format = useFormat();
  if (breaker.state === "closed") return <span className="text-ink-3">{t.closed}</span>;
  const left = Math.ceil(breaker.cooldown_remaining_sec);
  return (
    <StateBadge state={breaker.state === "open" ? "error" : "warning"}>
      {breaker.state === "open" ? t.breakerOpen : t.half_open}
      {breaker.keeps_away === "some" && ` · ${t.someAway}`}
      {left > 0 && ` · ${t.cooldown(format.duration(left * 1000))}`}
    </StateBadge>
  );
}

/** The last probes as small bars, oldest first: a tall one was answered, a short one was not. */
function Probes({ history }: { history: Upstream["history"] }) {
  const t = useT().upstreams;
  const format = useFormat();
  const shown = history.slice(-20);
  if (shown.length === 0) return "–";
  const ok = shown.filter((it) => it.ok).length;
  return (
    <span
      role="img"
      aria-label={t.historyLabel(format.integer(ok), format.integer(shown.length))}
      className="inline-flex h-4 items-end gap-0.5"
    >
      {shown.map((it) => (
        <span
          key={it.ts}
          title={`${format.time(it.ts)} ${it.ok && it.latency_ms !== null ? format.duration(it.latency_ms) : (it.error ?? t.failed)}`}
          className={cn("w-1 rounded-sm", it.ok ? "h-4 bg-ok-solid" : "h-2 bg-bad-solid")}
        />
      ))}
    </span>
  );
}
