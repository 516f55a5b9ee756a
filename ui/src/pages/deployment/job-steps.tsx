import type { DeploymentJob } from "@/api/types";
import { StateShape } from "@/kit/badge";
import { useT } from "./t";

/** What a job did, in its own words, the oldest step first; the last one of a running job goes on. */
export function JobSteps({ job }: { job: DeploymentJob }) {
  const t = useT();
  const runs = job.status === "running";
  if (job.logs.length === 0) return <p className="text-ink-3 text-sm">{t.job.noSteps}</p>;
  return (
    <details open={runs} className="text-sm">
      <summary className="list-item w-fit rounded-sm pl-1 text-ink-2 hover:text-ink">{t.job.steps}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div tabIndex={0} role="region" aria-label={t.job.steps} className="mt-1.5 max-h-64 overflow-y-auto">
        <ol className="flex flex-col gap-1">
          {job.logs.map((line, index) => {
            const last = index === job.logs.length - 1;
            const tone = last && runs ? "busy" : last && job.status === "failed" ? "bad" : "ok";
            return (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines are only added at the end
              <li key={index} className="flex gap-2">
                <StateShape
                  tone={tone}
                  className={`mt-1 ${{ ok: "text-ok", bad: "text-bad", busy: "text-busy" }[tone]}`}
                />
                <span className="min-w-0 break-words">{line}</span>
              </li>
            );
          })}
        </ol>
      </div>
    </details>
  );
}
