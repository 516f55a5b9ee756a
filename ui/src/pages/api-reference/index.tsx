import { Download } from "lucide-react";
import { Gate } from "@/app/gate";
import { type ApiDocument, useOpenApi } from "@/data/openapi";
import { useT as useCommonT } from "@/i18n";
import { buttonStyle } from "@/kit/button";
import { cn } from "@/kit/cn";
import { ErrorState } from "@/kit/error-state";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useUrlState } from "@/kit/url-state";
import { OperationDetail } from "./operation-detail";
import { OperationList } from "./operation-list";
import { groupsOf } from "./operations";
import { Prose } from "./prose";
import { useT } from "./t";

export default function Page() {
  const t = useT();
  const c = useCommonT();
  const document = useOpenApi();
  return (
    <Gate needs="getMe" title={c.page.apiReference}>
      <PageHeader
        title={c.page.apiReference}
        note={
          document.data && <span className="text-ink-3 text-sm">{t.version(document.data.info.version)}</span>
        }
        actions={
          <a href="/openapi.json" download className={cn(buttonStyle({ size: "sm" }))}>
            <Download aria-hidden className="size-4" />
            {t.download}
          </a>
        }
      />
      <PageBody>
        {document.data ? (
          <Reference document={document.data} />
        ) : document.error ? (
          <Panel>
            <ErrorState error={document.error} onRetry={document.refetch} />
          </Panel>
        ) : (
          <div className="grid gap-4 lg:grid-cols-[20rem_minmax(0,1fr)]">
            <Skeleton className="h-[70vh]" />
            <Skeleton className="h-[70vh]" />
          </div>
        )}
      </PageBody>
    </Gate>
  );
}

function Reference({ document }: { document: ApiDocument }) {
  const t = useT();
  const groups = groupsOf(document);
  const [id, setId] = useUrlState("op");
  const chosen = groups.flatMap((it) => it.operations).find((it) => it.operationId === id);
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[20rem_minmax(0,1fr)]">
      <div className={cn("min-w-0 lg:sticky lg:top-18", chosen && "hidden lg:block")}>
        <OperationList groups={groups} chosen={id} onChoose={(to) => setId(to, { push: true })} />
      </div>
      <div className="min-w-0">
        {chosen ? (
          <OperationDetail key={id} operation={chosen} document={document} onBack={() => setId("")} />
        ) : (
          <Panel className="hidden lg:block">
            <p className="mb-4 font-medium">{t.choose}</p>
            <Prose text={document.info.description} className="text-ink-2" />
          </Panel>
        )}
      </div>
    </div>
  );
}
