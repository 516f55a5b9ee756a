import { Gate } from "@/app/gate";
import { ToBuild } from "@/app/to-build";
import { useT } from "@/i18n";

export default function Page() {
  const t = useT();
  return (
    <Gate needs="listDeploymentJobs" title={t.page.deployment}>
      <ToBuild title={t.page.deployment} />
    </Gate>
  );
}
