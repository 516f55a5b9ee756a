import { Plus } from "lucide-react";
import { useModels } from "@/data/models";
import { useMay } from "@/data/session";
import { useUpstreams } from "@/data/upstreams";
import { useT as useCommonT } from "@/i18n";
import { cn } from "@/kit/cn";
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

/** The least number of models that fill a column beside the machine and the failures. */
const MANY = 6;

/** Beside each other is what is about equally high, so that little leaves no half of the page empty. */
function Parts({ models }: { models: ReturnType<typeof useModels> }) {
  const count = models.data?.length;
  const many = count !== undefined && count >= MANY;
  return (
    <div
      className={cn(
        "grid items-start gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]",
        many && "xl:grid-rows-[auto_1fr]",
      )}
    >
      {count !== 0 && (
        <div className={cn("min-w-0", many && "xl:row-span-2")}>
          <ModelList models={models} />
        </div>
      )}
      <div className={cn("min-w-0", count !== 0 && !many && "xl:order-last xl:col-span-2")}>
        <Failures models={models.data} />
      </div>
      <Machine />
    </div>
  );
}

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
          <Parts models={models} />
        </PageBody>
      )}
    </>
  );
}
