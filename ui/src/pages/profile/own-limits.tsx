import { ChartNoAxesColumn, KeyRound } from "lucide-react";
import type { ReactNode } from "react";
import type { Schema } from "@/api/types";
import { useOwnLimits } from "@/data/limits";
import { Badge } from "@/kit/badge";
import { ErrorState } from "@/kit/error-state";
import { StandingMeters } from "@/kit/limits/limit-meters";
import { ButtonLink } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useT } from "./t";

type Part = { id: string; title: ReactNode; standing: Schema<"Standing"> };

const isBound = ({ standing }: Part) => Object.values(standing).some((it) => it !== null);

/** What one may use, and how much of it is used: of oneself, of one's keys, and of one's organisation. */
export function OwnLimits() {
  const t = useT();
  const { data, error, refetch } = useOwnLimits();
  const parts: Part[] = data
    ? [
        { id: "user", title: t.limitsOfUser, standing: data.user },
        { id: "org", title: t.limitsOfOrg, standing: data.org },
        ...data.keys.map((it) => ({
          id: `key ${it.id}`,
          title: (
            <>
              {t.limitsOfKey(it.name || `${it.prefix}…`)}{" "}
              {it.limit_mode === "shadow" && <Badge tone="warn">{t.shadow}</Badge>}
            </>
          ),
          standing: it.limits,
        })),
      ]
    : [];
  const bound = parts.filter(isBound);
  return (
    <Panel
      title={t.limits}
      note={t.limitsNote}
      actions={
        <>
          <ButtonLink size="sm" to="/keys" search={{ whose: "own" }}>
            <KeyRound aria-hidden className="size-4" />
            {t.keysLink}
          </ButtonLink>
          <ButtonLink size="sm" to="/usage" search={{ whose: "own" }}>
            <ChartNoAxesColumn aria-hidden className="size-4" />
            {t.usageLink}
          </ButtonLink>
        </>
      }
    >
      {error && !data ? (
        <ErrorState error={error} onRetry={() => void refetch()} />
      ) : !data ? (
        <Skeleton className="h-16" />
      ) : bound.length === 0 ? (
        <p className="text-ink-2 text-sm">{t.unlimited}</p>
      ) : (
        <div className="flex flex-col gap-5">
          {bound.map((it) => (
            <section key={it.id} className="flex flex-col gap-2">
              <h3 className="break-words font-medium text-sm">{it.title}</h3>
              <StandingMeters standing={it.standing} />
            </section>
          ))}
        </div>
      )}
    </Panel>
  );
}
