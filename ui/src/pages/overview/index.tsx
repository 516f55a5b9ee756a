import { Plus } from "lucide-react";
import { useModels } from "@/data/models";
import { useMay } from "@/data/session";
import { useUpstreams } from "@/data/upstreams";
import { useT as useCommonT } from "@/i18n";
import { ErrorState } from "@/kit/error-state";
import { ButtonLink } from "@/kit/link";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Checklist } from "./checklist";
import { Failures } from "./failures";
import { Health } from "./health";
import { Machine } from "./machine";
import { ModelList } from "./model-list";
import { OwnModels, OwnRequests } from "./own";
import { Traffic } from "./traffic";

export default function Page() {
  const c = useCommonT();
  const may = useMay();
  const all = may("listModels");
  const models = useModels({ enabled: all });
  const upstreams = useUpstreams(all);
  return (
    <>
      <PageHeader
        title={c.page.overview}
        actions={
          may("createModel") && (
            <ButtonLink to="/models/new" size="sm">
              <Plus aria-hidden className="size-4" />
              {c.page.deploy}
            </ButtonLink>
          )
        }
      />
      {!all ? (
        <PageBody>
          <Checklist models={undefined} />
          <OwnModels />
          <OwnRequests />
        </PageBody>
      ) : models.error && !models.data ? (
        <ErrorState error={models.error} onRetry={models.refetch} />
      ) : (
        <PageBody>
          <Health models={models.data} upstreams={upstreams.data} />
          <Checklist models={models.data} />
          <Traffic />
          <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
            <div className="flex min-w-0 flex-col gap-4">
              <ModelList models={models} />
              <Failures models={models.data} />
            </div>
            <Machine />
          </div>
        </PageBody>
      )}
    </>
  );
}
