import type { ReactNode } from "react";
import type { Answer } from "@/api/types";
import { useCapabilities } from "@/data/system";
import { StateBadge } from "@/kit/badge";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { RelativeTime } from "@/kit/text";
import { Prose } from "@/parts/models/prose";
import { useT } from "./t";

const STATE = { supervisor: "ok", follower: "ok", stranger: "error", unknown: "unknown" } as const;

/** Which of several gateways starts, stops and watches the models. */
export function SupervisionCard() {
  const t = useT().supervision;
  const it: Answer<"getCapabilities">["supervision"] | undefined = useCapabilities().data?.supervision;
  if (!it) return null;
  const facts: [ReactNode, ReactNode][] = [[t.gateway, it.gateway ?? t.own]];
  if (it.supervisor) facts.push([t.supervisor, it.supervisor]);
  if (it.since) facts.push([t.since, <RelativeTime key="since" at={it.since} />]);
  if (it.runtime)
    facts.push([
      t.runtime,
      <code key="runtime" className="break-all font-mono text-xs">
        {it.runtime}
      </code>,
    ]);
  if (it.supervisor_runtime && it.supervisor_runtime !== it.runtime)
    facts.push([
      t.supervisorRuntime,
      <code key="other" className="break-all font-mono text-xs">
        {it.supervisor_runtime}
      </code>,
    ]);
  facts.push([t.reaches, it.reaches_engines ? t.reachesYes : t.reachesNo]);
  return (
    <Panel title={t.title} actions={<StateBadge state={STATE[it.role]}>{t.roles[it.role]}</StateBadge>}>
      <p className="mb-3 max-w-[72ch] break-words text-ink-2 text-sm">
        <Prose text={it.detail} />
      </p>
      <Facts facts={facts} />
    </Panel>
  );
}
