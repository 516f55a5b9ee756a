import { Gate } from "@/app/gate";
import { ToBuild } from "@/app/to-build";
import { useT } from "@/i18n";

export default function Page() {
  const t = useT();
  return (
    <Gate needs="listUsers" title={t.page.users}>
      <ToBuild title={t.page.users} />
    </Gate>
  );
}
