import { Gate } from "@/app/gate";
import { ToBuild } from "@/app/to-build";
import { useT } from "@/i18n";

export default function Page() {
  const t = useT();
  return (
    <Gate needs="listModels" title={t.page.model}>
      <ToBuild title={t.page.model} />
    </Gate>
  );
}
