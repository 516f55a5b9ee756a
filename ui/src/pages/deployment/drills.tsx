import { useReadiness } from "@/data/readiness";
import { StateShape } from "@/kit/badge";
import { Command } from "@/kit/code-block";
import { Panel } from "@/kit/panel";
import { RelativeTime } from "@/kit/text";
import { useT } from "./t";

/** Whether the newest backup was proven lately, and how to have that done. */
export function Drills() {
  const t = useT().restoring;
  const { data } = useReadiness();
  if (!data) return null;
  const said = data.checks.restore_drill;
  const fine = said === "ok";
  return (
    <Panel title={t.drills}>
      <div className="flex flex-col gap-3 text-sm">
        <p className="max-w-[72ch] text-ink-2">{t.drillsLead}</p>
        <div className="flex justify-between gap-3">
          <span className="text-ink-2">{t.lastProven}</span>
          <RelativeTime at={data.last_proven_restore} />
        </div>
        {said === undefined ? (
          <div>
            <p className="mb-1">{t.drillsOff}</p>
            <Command code="RESTORE_DRILL=daily" />
          </div>
        ) : (
          <p className="flex gap-2">
            <StateShape tone={fine ? "ok" : "bad"} className={`mt-1 ${fine ? "text-ok" : "text-bad"}`} />
            <span className="min-w-0 break-words">{fine ? t.drillOk : said}</span>
          </p>
        )}
        <div>
          <p className="mb-1 text-ink-2">{t.nightly}</p>
          <Command code={'sudo -u gantry gantry backup "/var/lib/gantry/backups/$(date +%F)"'} />
        </div>
        <div>
          <p className="mb-1 text-ink-2">{t.stopped}</p>
          <Command code="sudo -u gantry gantry restore DIR" />
        </div>
      </div>
    </Panel>
  );
}
