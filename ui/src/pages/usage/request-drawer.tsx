import type { ReactNode } from "react";
import type { UsageRow } from "@/api/types";
import { StackedBar } from "@/charts/stacked-bar";
import { useGroups } from "@/data/usage-explore";
import { useT as useCommonT, useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { CopyButton } from "@/kit/copy";
import { Facts } from "@/kit/facts";
import { type Found, RecordDrawer } from "@/kit/record-drawer";
import type { Usage, Word } from "./filter";
import { NO_MODEL } from "./filter";
import { groupName } from "./group-name";
import { Tokens } from "./rows";
import { useT } from "./t";

type RequestDrawerProps = {
  found: Found<UsageRow>;
  usage: Usage;
  onClose: () => void;
};

/** One request: what it used, and where its time went. */
export function RequestDrawer({ found, usage, onClose }: RequestDrawerProps) {
  const t = useT();
  return (
    <RecordDrawer title={t.request.title} found={found} gone={t.request.gone} onClose={onClose}>
      {(row) => <Opened row={row} usage={usage} />}
    </RecordDrawer>
  );
}

/** The names of whom a row belongs to, which has ids only: the sums know them. */
function useNames(row: UsageRow, own: boolean) {
  const t = useT();
  const at = Date.parse(row.created_at);
  const near = { from: new Date(at).toISOString(), to: new Date(at + 1).toISOString() };
  const { key_id, user_id, org_id } = row;
  const asked = {
    key: useGroups({ ...near, key_id: key_id ?? undefined, group_by: "key", limit: 1 }, own, {
      enabled: key_id !== null,
    }),
    user: useGroups({ ...near, user_id: user_id ?? undefined, group_by: "user", limit: 1 }, own, {
      enabled: !own && user_id !== null,
    }),
    org: useGroups({ ...near, org_id: org_id ?? undefined, group_by: "org", limit: 1 }, own, {
      enabled: !own && org_id !== null,
    }),
  };
  const name = (by: "key" | "user" | "org", otherwise: string) => {
    const group = asked[by].data?.items[0];
    return group ? groupName(group, by, t) : otherwise;
  };
  return {
    key: name("key", `${row.key_prefix}…`),
    user: name("user", `#${user_id}`),
    org: name("org", `#${org_id}`),
  };
}

function Opened({ row, usage }: { row: UsageRow; usage: Usage }) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const names = useNames(row, usage.own);
  const only = (text: ReactNode, word: Word, value: string | number | null) =>
    value === null ? (
      text
    ) : (
      <span className="flex min-w-0 items-center gap-2">
        <span className="min-w-0 break-words">{text}</span>
        <Button
          size="sm"
          look="quiet"
          className="-my-0.5 h-6 px-1.5"
          onClick={() => usage.setUrl({ request: undefined, [word]: String(value) }, { push: true })}
        >
          {t.request.onlyThis}
        </Button>
      </span>
    );
  return (
    <div className="flex flex-col gap-6">
      <div className="flex flex-wrap items-center gap-2">
        <StateBadge state={row.outcome === "ok" ? "ok" : "error"} size="md">
          {row.status_code} {c.outcome[row.outcome]}
        </StateBadge>
        <span className="text-ink-2 text-sm">{format.dateTime(row.created_at)}</span>
      </div>
      {row.requests > 1 && (
        <p className="text-ink-2 text-sm">{t.request.shared(format.integer(row.requests))}</p>
      )}
      <Facts
        facts={[
          [
            t.request.id,
            <span key="i" className="flex items-center gap-1">
              <code className="break-all font-mono text-xs">{row.req_id}</code>
              <CopyButton text={row.req_id} />
            </span>,
          ],
          [
            t.request.endpoint,
            <code key="e" className="font-mono text-xs">
              {row.endpoint}
            </code>,
          ],
          [t.request.model, only(row.model_name || t.groups.noModel, "model", row.model_name || NO_MODEL)],
          [t.request.key, only(row.key_prefix ? names.key : t.request.session, "key", row.key_id)],
          ...(usage.own || row.user_id === null
            ? []
            : [[t.request.user, only(names.user, "user", row.user_id)] as [string, ReactNode]]),
          ...(usage.own || row.org_id === null
            ? []
            : [[t.request.org, only(names.org, "org", row.org_id)] as [string, ReactNode]]),
          [t.request.status, only(String(row.status_code), "status", row.status_code)],
          [t.request.outcome, only(c.outcome[row.outcome], "outcome", row.outcome)],
          [t.request.task, t.task[row.task]],
          [t.request.stream, row.stream ? c.word.yes : c.word.no],
        ]}
      />
      <Timing row={row} />
      <section className="flex flex-col gap-3">
        <h3 className="font-semibold">{t.request.tokens}</h3>
        <Facts
          facts={[
            [t.request.input, <Tokens key="i" of={row.prompt_tokens} row={row} />],
            ...(row.cached_tokens === null
              ? []
              : [[t.request.cached, format.integer(row.cached_tokens)] as [string, string]]),
            [t.request.output, <Tokens key="o" of={row.completion_tokens} row={row} />],
          ]}
        />
        {row.estimated && <p className="max-w-[72ch] text-ink-2 text-sm">{t.rows.estimated}</p>}
      </section>
    </div>
  );
}

/** Where the time of a request went. The ledger has no time in the queue of its own: it is part of the first one. */
function Timing({ row }: { row: UsageRow }) {
  const t = useT();
  const format = useFormat();
  const first = row.ttft_ms === null ? null : Math.min(row.ttft_ms, row.latency_ms);
  const rest = row.latency_ms - (first ?? 0);
  // One token came with the first byte: its time is not that of writing.
  const written = row.completion_tokens - 1;
  // Times are whole milliseconds: a rate over a few of them would say nothing.
  const speed = first !== null && rest >= 50 && written > 0 ? (written / rest) * 1000 : null;
  return (
    <section className="flex flex-col gap-3">
      <h3 className="font-semibold">{t.request.timing}</h3>
      <StackedBar
        label={t.request.timing}
        height={16}
        segments={
          first === null
            ? [{ id: "all", label: t.request.whole, value: rest, text: format.duration(rest), color: 1 }]
            : [
                {
                  id: "first",
                  label: (
                    <>
                      {t.request.toFirst} <span className="text-ink-3">({t.request.toFirstNote})</span>
                    </>
                  ),
                  value: first,
                  text: format.duration(first),
                  color: 2,
                },
                {
                  id: "rest",
                  label: t.request.afterFirst,
                  value: rest,
                  text: format.duration(rest),
                  color: 1,
                },
              ]
        }
      />
      <Facts
        facts={[
          [t.request.whole, format.duration(row.latency_ms)],
          ...(speed === null
            ? []
            : [[t.request.speed, t.request.perSecond(format.decimal(speed, 1))] as [string, string]]),
        ]}
      />
    </section>
  );
}
