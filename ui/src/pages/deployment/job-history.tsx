import { ChevronDown, ChevronRight } from "lucide-react";
import type { DeploymentJob } from "@/api/types";
import { useMay } from "@/data/session";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { EmptyState } from "@/kit/empty-state";
import { ButtonLink } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { type Column, type ListState, Table } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { useUrlState } from "@/kit/url-state";
import { JobDetail } from "./job-detail";
import { useT } from "./t";

const STATE = {
  pending: "queued",
  running: "loading",
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
} as const;

/** Jobs that ended, newest first, each with what it did and made. */
export function JobHistory({ jobs }: { jobs: ListState<DeploymentJob> }) {
  const t = useT();
  const may = useMay();
  const [open, setOpen] = useUrlState("job");
  const ended = jobs.data?.filter((it) => it.finished_at !== null);
  return (
    <Panel title={t.job.history} flush>
      <Table
        label={t.job.history}
        columns={useColumns(open, setOpen)}
        list={{ ...jobs, data: ended }}
        rowKey={(it) => it.id}
        expanded={(it) => (it.id === open ? <JobDetail job={it} /> : undefined)}
        empty={
          jobs.data?.length ? (
            <EmptyState title={t.job.noneEnded} />
          ) : (
            <EmptyState
              title={t.job.none}
              command="gantry package export DIR --models"
              action={
                may("exportDeployment") && (
                  <ButtonLink to="/deployment" search={{ tab: "export" }} look="primary">
                    {t.job.noneAction}
                  </ButtonLink>
                )
              }
            />
          )
        }
      />
    </Panel>
  );
}

function useColumns(open: string, setOpen: (to: string) => void): Column<DeploymentJob>[] {
  const t = useT().job;
  const format = useFormat();
  return [
    {
      id: "what",
      head: t.columns.what,
      cell: (it) => {
        const shown = it.id === open;
        const Icon = shown ? ChevronDown : ChevronRight;
        return (
          <button
            type="button"
            aria-expanded={shown}
            onClick={() => setOpen(shown ? "" : it.id)}
            className="-ml-1 flex items-center gap-1 rounded-sm text-left font-medium"
          >
            <Icon aria-hidden className="size-4 shrink-0 text-ink-3" />
            {t.types[it.job_type]}
          </button>
        );
      },
    },
    { id: "state", head: t.columns.state, cell: (it) => <StateBadge state={STATE[it.status]} /> },
    {
      id: "dir",
      head: t.columns.dir,
      wide: true,
      cell: (it) => <Middle text={it.output_dir} end={20} className="font-mono text-xs" />,
    },
    { id: "begun", head: t.columns.begun, cell: (it) => <RelativeTime at={it.started_at * 1000} /> },
    {
      id: "took",
      head: t.columns.took,
      numeric: true,
      wide: true,
      cell: (it) =>
        it.finished_at === null ? "–" : format.duration(Math.round((it.finished_at - it.started_at) * 1000)),
    },
    {
      id: "size",
      head: t.columns.size,
      numeric: true,
      wide: true,
      cell: (it) => format.bytes(it.bytes_written),
    },
  ];
}
