import { useState } from "react";
import type { AuditRow } from "@/data/audit";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { cn } from "@/kit/cn";
import { Command } from "@/kit/code-block";
import { CopyButton } from "@/kit/copy";
import { checkChain } from "./changes";
import { useT } from "./t";

/** Whether the rows that are here are linked to each other, and how the whole log is verified. */
export function ChainState({ rows }: { rows: AuditRow[] }) {
  const t = useT().chain;
  const format = useFormat();
  const [open, setOpen] = useState(false);
  const { links, broken } = checkChain(rows);
  const newest = rows[0];
  const tone = broken ? "bad" : links > 0 ? "ok" : "idle";
  const text = broken
    ? t.broken(format.integer(broken.seq), format.integer(broken.before))
    : links > 0
      ? t.linked(format.integer(links))
      : t.none;
  return (
    <section
      aria-label={t.title}
      className={cn(
        "rounded-lg border bg-panel px-4 py-2 text-sm",
        broken ? "border-bad-solid bg-bad-soft" : "border-line",
      )}
    >
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <StateShape tone={tone} className={{ ok: "text-ok", bad: "text-bad", idle: "text-ink-3" }[tone]} />
        <h2 className="font-medium">{t.title}</h2>
        <p role={broken ? "alert" : undefined} className="min-w-0 grow basis-56 text-ink-2">
          {text}
        </p>
        <Button look="quiet" size="sm" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? t.hide : t.show}
        </Button>
      </div>
      {open && (
        <div className="mt-2 flex max-w-3xl flex-col gap-2 pb-1">
          <p className="text-ink-2">{t.full}</p>
          <Command code="gantry audit verify" />
          <Command code="gantry audit export > audit.jsonl && gantry audit verify --file audit.jsonl" />
          {newest && (
            <div>
              <p className="text-ink-2">{t.newest(format.integer(newest.seq))}</p>
              <p className="flex items-center gap-1">
                <code className="min-w-0 break-all font-mono text-xs">{newest.hash}</code>
                <CopyButton text={newest.hash} />
              </p>
              <p className="text-ink-3">{t.keep}</p>
            </div>
          )}
        </div>
      )}
    </section>
  );
}
