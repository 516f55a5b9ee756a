import { type Readiness, useReadiness } from "@/data/readiness";
import { StateBadge, StateShape } from "@/kit/badge";
import { Command } from "@/kit/code-block";
import { ErrorState } from "@/kit/error-state";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { RelativeTime } from "@/kit/text";
import { useT } from "./t";

const STATE = { ready: "ok", degraded: "warning", not_ready: "error", shutting_down: "stopping" } as const;

/** What the gateway checks of itself, and when a restore was proven last. */
export function ReadinessCard() {
  const t = useT().readiness;
  const { data, error, refetch } = useReadiness();
  return (
    <Panel
      title={t.title}
      actions={data && <StateBadge state={STATE[data.status]}>{t[data.status]}</StateBadge>}
    >
      {data ? (
        <Checks readiness={data} />
      ) : error ? (
        <ErrorState error={error} onRetry={refetch} />
      ) : (
        <Skeleton className="h-40" />
      )}
    </Panel>
  );
}

function Checks({ readiness: { checks, last_proven_restore: proven } }: { readiness: Readiness }) {
  const t = useT().readiness;
  const drills = checks.restore_drill !== undefined;
  const names: Record<string, string> = t.checks;
  return (
    <div className="flex flex-col gap-3 text-sm">
      <ul className="flex flex-col gap-1.5">
        {Object.entries(checks).map(([name, said]) => (
          <li key={name} className="flex gap-2">
            <StateShape
              tone={said === "ok" ? "ok" : "bad"}
              className={`mt-1 ${said === "ok" ? "text-ok" : "text-bad"}`}
            />
            <span className="min-w-0 flex-1 break-words">
              {names[name] ?? name}
              {said !== "ok" && <span className="block text-ink-2">{said}</span>}
            </span>
            {said === "ok" && <span className="text-ink-3">{said}</span>}
          </li>
        ))}
      </ul>
      <div className="border-line border-t pt-3">
        <div className="flex justify-between gap-3">
          <span className="text-ink-2">{t.proven}</span>
          <RelativeTime at={proven} />
        </div>
        {!drills && <p className="mt-1 text-ink-3">{t.noDrill}</p>}
        <Link to="/deployment" search={{ tab: "restore" }}>
          {t.toDeployment}
        </Link>
      </div>
      <Command code={`curl ${location.origin}/readyz`} label={t.command} />
    </div>
  );
}
