import { useLiveJobs } from "@/data/jobs";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Progress } from "@/kit/bars";
import { Panel } from "@/kit/panel";
import { useT } from "./t";

const WORDS = { running: "loading", done: "completed", failed: "failed", cancelled: "cancelled" } as const;

/** Loads of images that events told of, also those of other people. */
export function Loads() {
  const t = useT();
  const format = useFormat();
  const loads = Object.values(useLiveJobs()).filter((it) => it.job === "image_load");
  if (loads.length === 0) return null;
  return (
    <Panel title={t.jobs}>
      <ul className="flex flex-col gap-3">
        {loads.map((it) => (
          <li key={it.path} className="flex items-center gap-3">
            <div className="min-w-0 flex-1">
              <Progress
                label={it.path}
                value={it.total_bytes > 0 ? it.done_bytes / it.total_bytes : null}
                text={t.dialog.of(format.bytes(it.done_bytes), format.bytes(it.total_bytes))}
                tone={it.state === "failed" ? "bad" : "accent"}
              />
            </div>
            <StateBadge state={WORDS[it.state]} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}
