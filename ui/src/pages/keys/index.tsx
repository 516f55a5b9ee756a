import { Gate } from "@/app/gate";
import { ToBuild } from "@/app/to-build";
import { useT } from "@/i18n";

export default function Page() {
  const t = useT();
  return (
    <Gate needs="listOwnKeys" title={t.page.keys}>
      <ToBuild title={t.page.keys} />
    </Gate>
  );
}
