import { Plus } from "lucide-react";
import { useState } from "react";
import { Gate } from "@/app/gate";
import { useMay } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ButtonLink } from "@/kit/link";
import { PageBody, PageHeader } from "@/kit/page-header";
import type { Asked } from "./dialogs";
import { ModelList } from "./list";
import { useT } from "./t";

export default function Page() {
  const t = useT();
  const c = useCommonT();
  const may = useMay();
  const [asked, ask] = useState<Asked>({ kind: "none" });
  return (
    <Gate needs="listModels" title={c.page.models}>
      <PageHeader
        title={c.page.models}
        actions={
          <>
            {may("addRegistryEntry") && (
              <Button size="sm" onClick={() => ask({ kind: "add" })}>
                {t.addEntry}
              </Button>
            )}
            {may("createModel") && (
              <ButtonLink to="/models/new" look="primary" size="sm">
                <Plus aria-hidden className="size-4" />
                {t.add}
              </ButtonLink>
            )}
          </>
        }
      />
      <PageBody>
        <ModelList asked={asked} ask={ask} />
      </PageBody>
    </Gate>
  );
}
