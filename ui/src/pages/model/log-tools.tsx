import { ArrowDownToLine, ChevronDown, ChevronUp, Copy, Download, WrapText } from "lucide-react";
import type { RefObject } from "react";
import { downloadText } from "@/api/download";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button, IconButton } from "@/kit/button";
import { copyText } from "@/kit/copy";
import { FilterChips } from "@/kit/filter-chips";
import { TextInput } from "@/kit/inputs";
import { Select } from "@/kit/select";
import { toast, toastError } from "@/kit/toast";
import { useUrlState } from "@/kit/url-state";
import type { Level, Line } from "./log-lines";
import { useT } from "./t";

const HISTORY = ["1000", "5000", "20000"];

type LogToolsProps = {
  name: string;
  lines: Line[];
  counts: Record<Level, number>;
  matches: number[];
  at: number;
  onMatch: (step: 1 | -1) => void;
  follow: boolean;
  /** `undefined`: the log has ended, and nothing comes that could be followed. */
  onFollow: ((to: boolean) => void) | undefined;
  field: RefObject<HTMLInputElement | null>;
  /** Whether there are two runs to choose from. */
  runs: boolean;
};

/** What one can do with a log: search, filter, follow, wrap, load more of the past, download. */
export function LogTools(props: LogToolsProps) {
  const { name, lines, counts, matches, at, onMatch, follow, onFollow, field, runs } = props;
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const [word, setWord] = useUrlState("q");
  const [wrap, setWrap] = useUrlState("wrap");
  const [tail, setTail] = useUrlState("tail", "1000");
  const [run, setRun] = useUrlState("run", "this");
  const text = () => `${lines.map((it) => it.text).join("\n")}\n`;
  return (
    <div className="flex flex-wrap items-center gap-2 border-line border-b px-3 py-2">
      <div className="flex w-full items-center gap-1 sm:w-80" role="search">
        <TextInput
          ref={field}
          type="search"
          data-page-search=""
          aria-label={t.log.search}
          placeholder={t.log.search}
          value={word}
          onValue={setWord}
          onKeyDown={(event) => event.key === "Enter" && onMatch(event.shiftKey ? -1 : 1)}
        />
        <IconButton
          icon={ChevronUp}
          size="sm"
          label={t.log.previous}
          keys="N"
          disabled={matches.length === 0}
          onClick={() => onMatch(-1)}
        />
        <IconButton
          icon={ChevronDown}
          size="sm"
          label={t.log.next}
          keys="n"
          disabled={matches.length === 0}
          onClick={() => onMatch(1)}
        />
      </div>
      <span aria-live="polite" className={word ? "min-w-16 text-ink-2 text-sm" : "sr-only"}>
        {word &&
          (matches.length === 0
            ? t.log.noMatch
            : t.log.matches(format.integer(at + 1), format.integer(matches.length)))}
      </span>
      <FilterChips
        param="level"
        label={t.log.levels}
        chips={(["error", "warning", "info"] as const)
          .filter((it) => counts[it] > 0)
          .map((it) => ({ value: it, label: t.log.level[it], count: counts[it] }))}
      />
      <div className="ml-auto flex flex-wrap items-center gap-1">
        {runs && (
          <Select
            compact
            aria-label={t.log.run}
            value={run}
            onValue={setRun}
            options={[
              { value: "this", label: t.log.thisRun },
              { value: "before", label: t.log.lastRun },
            ]}
          />
        )}
        <Select
          compact
          aria-label={t.log.history}
          value={tail}
          onValue={setTail}
          options={HISTORY.map((it) => ({ value: it, label: t.log.last(format.integer(Number(it))) }))}
        />
        <IconButton
          icon={WrapText}
          label={t.log.wrap}
          aria-pressed={wrap === "1"}
          className={wrap === "1" ? "bg-accent-soft text-ink" : undefined}
          onClick={() => setWrap(wrap === "1" ? "" : "1")}
        />
        {/* Not a CopyButton: the text of a long log is made only when somebody wants it. */}
        <IconButton
          icon={Copy}
          label={t.log.copy}
          onClick={() => void copyText(text()).then(() => toast(c.do.copied), toastError)}
        />
        <IconButton
          icon={Download}
          label={t.log.download}
          onClick={() => downloadText(text(), `${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.log`)}
        />
        {onFollow && (
          <Button
            icon={ArrowDownToLine}
            aria-pressed={follow}
            className={follow ? "border-accent bg-accent-soft" : undefined}
            onClick={() => onFollow(!follow)}
          >
            {t.log.follow}
          </Button>
        )}
      </div>
    </div>
  );
}
