import { Check } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import type { Model } from "@/api/types";
import { useLocal } from "@/app/local";
import { useStateSince } from "@/data/model-detail";
import { useUsageRows } from "@/data/usage";
import { useT as useCommonT, useFormat } from "@/i18n";
import { useDiagnosed } from "@/i18n/gateway";
import { StateShape } from "@/kit/badge";
import { Button, IconButton } from "@/kit/button";
import { ErrorState } from "@/kit/error-state";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { RelativeTime } from "@/kit/text";
import { type Failed, newestOf, sameFailure } from "./newest";
import { marked, NOTHING_SEEN, type Seen, unseen, unseenFirst } from "./seen";
import { useT } from "./t";

/** How many failures are shown, and among how many rows like ones are looked for. */
const SHOWN = 8;
const ROWS = 50;

/**
 * Models that failed, and the newest requests that an engine failed at, each with the way to the cause. What was marked as seen is
 * hidden until it happens again.
 */
export function Failures({ models = [] }: { models?: Model[] }) {
  const t = useT();
  const diagnosed = useDiagnosed();
  const rows = useUsageRows({ status: "5xx", limit: ROWS, hours: 24 }, { refetchInterval: 10_000 });
  const [seen, setSeen] = useLocal<Seen>("seen-failures", NOTHING_SEEN);
  const [showSeen, setShowSeen] = useState(false);
  const list = useRef<HTMLDivElement>(null);
  const broken = unseenFirst(
    seen,
    models.filter((it) => it.state === "failed"),
  );
  const failed = useStateSince(broken.slice(0, SHOWN));
  const every = newestOf(failed, rows.data?.items ?? []);
  const fresh = newestOf(...unseen(seen, failed, rows.data?.items ?? []));
  const hidden = every.length - fresh.length;
  const newest = (showSeen ? every : fresh).slice(0, SHOWN);
  const markSeen = (failures: Failed[]) => {
    setSeen(marked(seen, failures));
    setShowSeen(false);
    // The button goes with its line: the keyboard goes on from here.
    list.current?.focus();
  };
  return (
    <Panel
      title={t.failures.title}
      flush
      actions={
        <>
          {fresh.length > 1 && (
            <Button size="sm" look="quiet" onClick={() => markSeen(fresh)}>
              {t.failures.seeAll}
            </Button>
          )}
          <Link to="/usage" search={{ status: "5xx" }} className="text-sm">
            {t.failures.all}
          </Link>
        </>
      }
    >
      <div ref={list} tabIndex={-1} className="outline-none">
        {rows.error && !rows.data ? (
          <ErrorState error={rows.error} onRetry={rows.refetch} />
        ) : rows.data && newest.length === 0 ? (
          <p className="px-4 py-3 text-ink-3 text-sm">{hidden > 0 ? t.failures.noneNew : t.failures.none}</p>
        ) : (
          <ul aria-label={t.failures.title}>
            {newest.map((it) =>
              it.kind === "model" ? (
                <OfModel
                  key={`model ${it.model.id}`}
                  model={it.model}
                  why={it.model.diagnosis ? diagnosed(it.model.diagnosis).title : it.model.state_reason}
                  at={it.at}
                  onSeen={fresh.some(isSame(it)) ? () => markSeen([it]) : undefined}
                />
              ) : (
                <OfRequests
                  key={it.row.id}
                  of={it}
                  onSeen={fresh.some(isSame(it)) ? () => markSeen([it]) : undefined}
                />
              ),
            )}
          </ul>
        )}
      </div>
      {hidden > 0 && (
        <div className="border-line border-t px-2 py-1">
          <Button size="sm" look="quiet" onClick={() => setShowSeen(!showSeen)}>
            {showSeen ? t.failures.hideSeen : t.failures.showSeen(hidden)}
          </Button>
        </div>
      )}
    </Panel>
  );
}

/** Whether another failure is of the same model, or of a request that failed in the same way. */
const isSame = (one: Failed) => (other: Failed) =>
  one.kind === "model"
    ? other.kind === "model" && other.model.id === one.model.id
    : other.kind === "requests" && sameFailure(other.row) === sameFailure(one.row);

type LineProps = {
  what: string;
  why: ReactNode;
  at?: string;
  way: ReactNode;
  /** Missing for what was marked as seen. */
  onSeen: (() => void) | undefined;
};

function Line({ what, why, at, way, onSeen }: LineProps) {
  const t = useT();
  return (
    <li className="flex items-start gap-2.5 border-line border-b px-4 py-2 text-sm last:border-b-0">
      <StateShape tone="bad" className="mt-1 text-bad" />
      <div className="min-w-0 flex-1">
        <p className="break-words font-medium">{what}</p>
        <p className="line-clamp-2 break-words text-ink-2">{why}</p>
      </div>
      {at && <RelativeTime at={at} className="text-ink-3" />}
      {way}
      {onSeen && at && (
        <IconButton
          icon={Check}
          size="sm"
          label={t.failures.see(what)}
          className="-my-1 shrink-0"
          onClick={onSeen}
        />
      )}
    </li>
  );
}

type OfModelProps = Pick<LineProps, "onSeen"> & { model: Model; why: string | null; at: string | undefined };

function OfModel({ model, why, at, onSeen }: OfModelProps) {
  const t = useT();
  return (
    <Line
      what={t.failures.model(model.served_name)}
      why={why}
      at={at}
      onSeen={onSeen}
      way={
        <Link to="/models/$id" params={{ id: String(model.id) }} search={{ tab: "logs", why: "1" }}>
          {t.failures.logs}
        </Link>
      }
    />
  );
}

type OfRequestsProps = Pick<LineProps, "onSeen"> & { of: Failed & { kind: "requests" } };

function OfRequests({ of: { row, count, at }, onSeen }: OfRequestsProps) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const same = count > 1 ? ` · ${t.failures.times(format.integer(count))}` : "";
  return (
    <Line
      what={t.failures.request(row.status_code, row.model_name || t.failures.noModel)}
      why={`${row.endpoint} · ${c.outcome[row.outcome]}${same}`}
      at={at}
      onSeen={onSeen}
      way={
        <Link to="/usage" search={{ status: "5xx", model: row.model_name || undefined, request: row.id }}>
          {t.failures.usage}
        </Link>
      }
    />
  );
}
