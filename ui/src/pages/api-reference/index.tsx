import { Gate } from "@/app/gate";
import { ToBuild } from "@/app/to-build";
import { useT } from "@/i18n";

export default function Page() {
  const t = useT();
  return (
    <Gate needs="getMe" title={t.page.apiReference}>
      <ToBuild title={t.page.apiReference} />
    </Gate>
  );
}
