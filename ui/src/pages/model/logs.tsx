import { useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "@/api/errors";
import type { Model } from "@/api/types";
import { type Log, MOST_HISTORY, useLogStream } from "@/data/log-stream";
import { useDiagnosis, usePreviousLog } from "@/data/model-detail";
import { useFormat } from "@/i18n";
import { ErrorNote } from "@/kit/error-state";
import { RelativeTime } from "@/kit/text";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { DiagnosisCard } from "./diagnosis-card";
import { type Level, LineMaker, matchesOf, placeOf } from "./log-lines";
import { LogTools } from "./log-tools";
import { LogView, type LogViewHandle } from "./log-view";
import { useT } from "./t";

/** The log of a model's engine, live, with the reason of a failure above it. */
export function Logs({ model }: { model: Model }) {
  const t = useT();
  const format = useFormat();
  const url = useUrl();
  const setUrl = useSetUrl();
  const { q: word = "", wrap, level = "", why } = url;
  const tail = Math.min(MOST_HISTORY, Number(url.tail ?? 1000) || 1000);
  // A start makes a new log; a failure ends it.
  const state = ["starting", "failed"].includes(model.state) ? model.state : "active";
  const run = model.state === "stopped" ? null : state;
  const live = useLogStream(model.id, tail, run);
  // That a model which rests has no log is no error.
  const noEngine = run === null || (live.error instanceof ApiError && live.error.status === 409);
  const before = usePreviousLog(model.id, run, tail).data;
  const hasBefore = before !== undefined && before.lines > 0;
  /** Whether the log is that of the run before: because it is wanted, or there is no other. */
  const over = hasBefore && (noEngine || url.run === "before");
  const log = useMemo(
    (): Log =>
      over ? { ...live, lines: before.logs.split("\n"), first: 0, state: "ended", error: undefined } : live,
    [over, before, live],
  );
  const diagnosis = useDiagnosis(model.id, model.state);
  // What the row of a failed model says, too: one cause for all pages.
  const cause = (model.state === "failed" && model.diagnosis) || diagnosis.data?.diagnosis;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it knows the lines of one log
  const maker = useMemo(() => new LineMaker(), [over, before, log.reading]);
  const all = useMemo(() => maker.lines(log.lines, log.first), [maker, log.lines, log.first]);
  const lines = useMemo(
    () => (level === "" ? all : all.filter((it) => level.split(",").includes(it.level))),
    [all, level],
  );
  const counts = useMemo(() => {
    const sums: Record<Level, number> = { error: 0, warning: 0, info: 0 };
    for (const it of all) sums[it.level] += 1;
    return sums;
  }, [all]);
  const matches = useMemo(() => matchesOf(lines, word), [lines, word]);
  const [at, setAt] = useState(0);
  const [current, setCurrent] = useState<number | null>(null);
  const [follow, setFollow] = useState(why !== "1");
  const view = useRef<LogViewHandle>(null);
  const field = useRef<HTMLInputElement>(null);
  const show = (place: number) => {
    setFollow(false);
    setCurrent(lines[place]?.number ?? null);
    view.current?.show(place);
  };
  const step = (by: 1 | -1) => {
    if (matches.length === 0) return;
    const next = (at + by + matches.length) % matches.length;
    setAt(next);
    show(matches[next] ?? 0);
  };
  /** A line that a filter hides: it is shown once the filter is gone. */
  const [wanted, setWanted] = useState<string | null>(null);
  const jump = (quote: string) => {
    const place = placeOf(lines, quote);
    if (place >= 0) return show(place);
    if (level === "") return;
    setWanted(quote);
    setUrl({ level: undefined });
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the filter is gone
  useEffect(() => {
    if (wanted === null || level !== "") return;
    setWanted(null);
    const place = placeOf(lines, wanted);
    if (place >= 0) show(place);
  }, [wanted, level]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new word begins at its newest match
  useEffect(() => {
    if (word === "" || matches.length === 0) return setCurrent(null);
    setAt(matches.length - 1);
    show(matches.at(-1) ?? 0);
  }, [word]);
  // "Why" opens the log at the evidence.
  const evidence = cause?.evidence[0];
  const jumped = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, as soon as both are there
  useEffect(() => {
    if (why !== "1" || jumped.current || !evidence || lines.length === 0) return;
    jumped.current = true;
    jump(evidence);
  }, [why, evidence, lines.length]);
  const onKey = (event: React.KeyboardEvent) => {
    if (event.target === field.current || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") step(1);
    if (event.key === "N") step(-1);
  };
  return (
    <div className="flex flex-col gap-4">
      {cause?.detected && (
        <DiagnosisCard model={model} diagnosis={cause} onJump={jump} has={(it) => placeOf(all, it) >= 0} />
      )}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: n and N go through the matches wherever the focus is in here */}
      <div className="min-w-0 overflow-hidden rounded-lg border border-line bg-panel" onKeyDown={onKey}>
        <LogTools
          name={model.served_name}
          lines={lines}
          counts={counts}
          matches={matches}
          at={at}
          onMatch={step}
          follow={follow}
          onFollow={over ? undefined : setFollow}
          field={field}
          runs={hasBefore && !noEngine}
        />
        <div className="h-[max(20rem,calc(100dvh-22rem))]">
          {lines.length === 0 ? (
            <p className="px-4 py-6 text-ink-2 text-sm">
              {all.length > 0 ? t.log.none : noEngine ? t.log.noEngine : t.log.empty}
            </p>
          ) : (
            <LogView
              lines={lines}
              label={t.log.label}
              word={word}
              current={current}
              wrap={wrap === "1"}
              follow={follow}
              onFollow={setFollow}
              handle={view}
            />
          )}
        </div>
        <p className="flex flex-wrap gap-x-3 border-line border-t px-3 py-1.5 text-ink-2 text-sm">
          <span>{t.log.lines(lines.length, format.integer(lines.length))}</span>
          {log.first > 0 && <span>{t.log.cut}</span>}
          {over && before.until && (
            <span>
              {t.log.until} <RelativeTime at={Date.parse(before.until)} />
            </span>
          )}
          {!over && diagnosis.data?.earlier && <span>{t.log.earlier}</span>}
          {log.state === "waiting" && <span>{t.log.reconnecting}</span>}
          {!follow && log.state === "reading" && <span>{t.log.paused}</span>}
          {!over && log.state === "ended" && !log.error && <span>{t.log.ended}</span>}
        </p>
      </div>
      {log.error !== undefined && !noEngine && <ErrorNote error={log.error} />}
    </div>
  );
}
