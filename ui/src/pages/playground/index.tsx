import { Gate } from "@/app/gate";
import { ToBuild } from "@/app/to-build";
import { useT } from "@/i18n";

export default function Page() {
  const t = useT();
  return (
    <Gate needs="listChats" title={t.page.playground}>
      <ToBuild title={t.page.playground} />
    </Gate>
  );
}
