import { HardDriveUpload } from "lucide-react";
import { Gate } from "@/app/gate";
import { useImages } from "@/data/images";
import { useModels } from "@/data/models";
import { useReadiness } from "@/data/readiness";
import { useMay } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorState } from "@/kit/error-state";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useUrlState } from "@/kit/url-state";
import { ImageTable } from "./image-table";
import { LoadDialog } from "./load-dialog";
import { Loads } from "./loads";
import { missingOf, shownOf } from "./needs";
import { useT } from "./t";
import { Verdict } from "./verdict";

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="getContainerImages" title={c.page.images}>
      <ImagesPage />
    </Gate>
  );
}

function ImagesPage() {
  const t = useT();
  const c = useCommonT();
  const may = useMay();
  const images = useImages();
  const process = useReadiness().data?.runtime === "process";
  const [dialog, setDialog] = useUrlState("dialog");
  const mayLoad = may("loadContainerImages") && !process;
  const models = useModels();
  const all = images.data && shownOf(images.data, models.data ?? []);
  return (
    <>
      <PageHeader
        title={c.page.images}
        actions={
          mayLoad && (
            <Button icon={HardDriveUpload} size="sm" onClick={() => setDialog("load")}>
              {t.load}
            </Button>
          )
        }
      />
      <PageBody>
        {images.error && !images.data ? (
          <Panel>
            <ErrorState error={images.error} onRetry={images.refetch} />
          </Panel>
        ) : !images.data || !all ? (
          <>
            <Skeleton className="h-28" />
            <Skeleton className="h-40" />
          </>
        ) : (
          <>
            <Verdict images={images.data} missing={missingOf(all)} process={process} mayLoad={mayLoad} />
            <Loads />
            <Panel title={process ? t.programs : t.engines} flush>
              <ImageTable label={process ? t.programs : t.engines} images={all.engines} process={process} />
            </Panel>
            {!process && (
              <Panel title={t.models} flush>
                {all.models.length === 0 ? (
                  <p className="px-4 py-3 text-ink-3 text-sm">{t.noModels}</p>
                ) : (
                  <ImageTable label={t.models} images={all.models} process={process} />
                )}
              </Panel>
            )}
          </>
        )}
        {dialog === "load" && mayLoad && <LoadDialog onClose={() => setDialog("")} />}
      </PageBody>
    </>
  );
}
