import { useEffect, useRef, useState } from "react";
import type { DeploymentJob } from "@/api/types";
import { useCancelJob } from "@/data/deployment";
import { useMay } from "@/data/session";
import { useFormat } from "@/i18n";
import { Progress } from "@/kit/bars";
import { Button } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { Panel } from "@/kit/panel";
import { Middle, RelativeTime } from "@/kit/text";
import { toast } from "@/kit/toast";
import { JobSteps } from "./job-steps";
import { useT } from "./t";

/** Bytes a second over about the last ten seconds; `null` until that is known. */
function useSpeed(bytes: number): number | null {
  const samples = useRef<{ at: number; bytes: number }[]>([]);
  const [speed, setSpeed] = useState<number | null>(null);
  useEffect(() => {
    const now = Date.now();
    samples.current = [...samples.current.filter((it) => now - it.at < 10_000), { at: now, bytes }];
    const first = samples.current[0];
    if (!first || now - first.at < 500) return;
    setSpeed(Math.max(0, (bytes - first.bytes) / ((now - first.at) / 1000)));
  }, [bytes]);
  return speed;
}

/** The job that runs: what it does just now, how far it is, how fast, and how long it will take. */
export function RunningJob({ job }: { job: DeploymentJob }) {
  const t = useT();
  const format = useFormat();
  const may = useMay();
  const cancel = useCancelJob();
  const [asks, setAsks] = useState(false);
  const speed = useSpeed(job.bytes_written);
  const name = t.job.types[job.job_type];
  const size = job.estimated_size_bytes;
  return (
    <Panel
      title={`${t.job.now}: ${name}`}
      note={<RelativeTime at={job.started_at * 1000} />}
      actions={
        may("cancelDeploymentJob") && (
          <Button size="sm" look="danger" onClick={() => setAsks(true)}>
            {t.job.cancel}
          </Button>
        )
      }
    >
      <div className="flex flex-col gap-3">
        <Progress
          label={job.step || t.job.beginning}
          value={size ? job.progress : null}
          text={
            size
              ? `${t.job.of(format.bytes(job.bytes_written), format.bytes(size))} · ${format.percent(Math.floor(job.progress * 100))}`
              : format.bytes(job.bytes_written)
          }
        />
        <dl className="flex flex-wrap gap-x-6 gap-y-1 text-sm">
          <div className="flex gap-2">
            <dt className="text-ink-2">{t.job.speed}</dt>
            <dd>{speed === null ? "–" : format.byteRate(speed)}</dd>
          </div>
          <div className="flex gap-2">
            <dt className="text-ink-2">{t.job.eta}</dt>
            <dd>
              {job.eta_seconds === null
                ? t.job.etaUnknown
                : format.duration(Math.max(1, job.eta_seconds) * 1000)}
            </dd>
          </div>
          <div className="flex min-w-0 gap-2">
            <dt className="text-ink-2">{t.job.output}</dt>
            <dd className="min-w-0">
              <Middle text={job.output_dir} end={20} className="font-mono text-xs leading-5" />
            </dd>
          </div>
        </dl>
        <JobSteps job={job} />
      </div>
      <ConfirmDialog
        open={asks}
        onClose={() => setAsks(false)}
        title={t.job.cancelTitle(name)}
        consequence={t.job.cancelText[job.job_type]}
        action={t.job.cancel}
        onConfirm={async () => {
          await cancel.mutateAsync(job);
          toast(t.job.cancelled);
        }}
      />
    </Panel>
  );
}
