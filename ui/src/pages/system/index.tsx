import { Gate } from "@/app/gate";
import { useHost } from "@/data/system";
import { useT as useCommonT } from "@/i18n";
import { PageBody, PageHeader } from "@/kit/page-header";
import { CapabilitiesCard } from "./capabilities";
import { Gpus } from "./gpus";
import { Now } from "./now";
import { ReadinessCard } from "./readiness";
import { SupervisionCard } from "./supervision";
import { Trends } from "./trends";
import { Upstreams } from "./upstreams";

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="getHostSummary" title={c.page.system}>
      <System />
    </Gate>
  );
}

function System() {
  const c = useCommonT();
  const host = useHost();
  return (
    <>
      <PageHeader title={c.page.system} />
      <PageBody>
        <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
          {/* On a narrow screen there is one column, and what the machine can do comes last. */}
          <div className="contents min-w-0 flex-col gap-4 xl:flex">
            <Trends host={host.data} />
            <Upstreams />
            <div className="order-last xl:order-none">
              <CapabilitiesCard />
            </div>
          </div>
          <div className="flex min-w-0 flex-col gap-4">
            <Now host={host} />
            <Gpus />
            <ReadinessCard />
            <SupervisionCard />
          </div>
        </div>
      </PageBody>
    </>
  );
}
