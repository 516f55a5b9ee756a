import { Gate } from "@/app/gate";
import { useDeploymentJobs } from "@/data/jobs";
import { useT as useCommonT } from "@/i18n";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Tabs } from "@/kit/tabs";
import { Exporting } from "./exporting";
import { Importing } from "./importing";
import { JobHistory } from "./job-history";
import { Restoring } from "./restoring";
import { RunningJob } from "./running-job";
import { useT } from "./t";

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listDeploymentJobs" title={c.page.deployment}>
      <Deployment />
    </Gate>
  );
}

function Deployment() {
  const t = useT();
  const c = useCommonT();
  const jobs = useDeploymentJobs();
  const running = jobs.data?.find((it) => it.status === "running" || it.status === "pending");
  const busy = running !== undefined;
  return (
    <>
      <PageHeader title={c.page.deployment} />
      <PageBody>
        {running && <RunningJob key={running.id} job={running} />}
        <Tabs
          label={t.tabList}
          tabs={[
            { id: "jobs", label: t.tabs.jobs, content: <JobHistory jobs={jobs} /> },
            { id: "export", label: t.tabs.export, content: <Exporting busy={busy} /> },
            { id: "import", label: t.tabs.import, content: <Importing busy={busy} /> },
            { id: "restore", label: t.tabs.restore, content: <Restoring busy={busy} /> },
          ]}
        />
      </PageBody>
    </>
  );
}
