import type { ReactNode } from "react";
import type { Upstream } from "@/api/types";
import { useFormat } from "@/i18n";
import { CopyButton } from "@/kit/copy";
import { Facts } from "@/kit/facts";
import { RelativeTime } from "@/kit/text";
import { engineName, useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

/** The rest of what is known of an upstream. */
export function UpstreamDetail({ upstream: it }: { upstream: Upstream }) {
  const t = useT().upstreams;
  const m = useModelT();
  const format = useFormat();
  const failures = it.history.filter((probe) => !probe.ok && probe.error).slice(-3);
  const facts: [ReactNode, ReactNode][] = [
    [
      t.url,
      it.url === null ? (
        t.noUrl
      ) : (
        <span key="url" className="inline-flex max-w-full items-center gap-1">
          <code className="min-w-0 break-all font-mono text-xs">{it.url}</code>
          <CopyButton text={it.url} />
        </span>
      ),
    ],
    [
      t.source,
      [t.sources[it.source], it.engine_type && engineName(it.engine_type, m), m.task[it.task]]
        .filter(Boolean)
        .join(" · "),
    ],
    [t.lastOk, <RelativeTime key="ok" at={it.last_ok_at} />],
    [
      t.lastError,
      it.last_error
        ? `${it.last_error}${it.consecutive_failures > 0 ? ` (${t.failures(format.integer(it.consecutive_failures))})` : ""}`
        : t.noError,
    ],
    [
      t.models,
      it.models.length > 0 ? (
        <span key="models" className="break-all">
          {it.models.join(", ")}
        </span>
      ) : (
        "–"
      ),
    ],
  ];
  return (
    <div className="flex flex-col gap-3 text-sm">
      <Facts facts={facts} />
      {failures.length > 0 && (
        <ul className="font-mono text-xs">
          {failures.map((probe) => (
            <li key={probe.ts} className="break-words">
              <span className="text-ink-3">{format.time(probe.ts)}</span> {probe.error}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
