import { useParams } from "@tanstack/react-router";
import { ApiError } from "@/api/errors";
import type { Model } from "@/api/types";
import { Gate } from "@/app/gate";
import { useModel } from "@/data/models";
import { useT as useCommonT } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { CopyButton } from "@/kit/copy";
import { EmptyState } from "@/kit/empty-state";
import { ErrorState } from "@/kit/error-state";
import { ButtonLink, Link } from "@/kit/link";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Skeleton } from "@/kit/skeleton";
import { type Tab, Tabs } from "@/kit/tabs";
import { Configuration } from "./configuration";
import { HeaderActions } from "./header-actions";
import { Logs } from "./logs";
import { Lora } from "./lora";
import { Metrics } from "./metrics";
import { Overview } from "./overview";
import { useT } from "./t";
import { Test } from "./test";
import { Timeline } from "./timeline";
import { type Typing, useTyped } from "./typed";

export default function Page() {
  const c = useCommonT();
  const { id } = useParams({ strict: false });
  return (
    <Gate needs="listModels" title={c.page.model}>
      <ModelPage key={id} id={Number(id)} />
    </Gate>
  );
}

function ModelPage({ id }: { id: number }) {
  const t = useT();
  const c = useCommonT();
  const { data: model, error, refetch } = useModel(id);
  const typing = useTyped(id);
  const crumbs = [
    <Link key="models" to="/models">
      {c.page.models}
    </Link>,
  ];
  if (!model)
    return (
      <>
        <PageHeader title={c.page.model} crumbs={crumbs} />
        {error instanceof ApiError && (error.status === 404 || error.status === 400) ? (
          <EmptyState title={t.notFound} action={<ButtonLink to="/models">{c.page.models}</ButtonLink>} />
        ) : error ? (
          <ErrorState error={error} onRetry={refetch} />
        ) : (
          <PageBody>
            <Skeleton className="h-96" />
          </PageBody>
        )}
      </>
    );
  return (
    <>
      <PageHeader
        title={model.served_name}
        crumbs={crumbs}
        note={
          <span className="flex items-center gap-2">
            <CopyButton text={model.served_name} label={c.do.copyCode(t.servedName)} />
            <StateBadge state={model.state} />
          </span>
        }
        actions={<HeaderActions model={model} />}
      />
      <PageBody>
        <Tabs label={t.tabs} tabs={tabsOf(model, typing, t)} />
      </PageBody>
    </>
  );
}

function tabsOf(model: Model, typing: Typing, t: ReturnType<typeof useT>): Tab[] {
  const tabs: Tab[] = [
    { id: "overview", label: t.tab.overview, content: <Overview model={model} /> },
    {
      id: "configuration",
      label: t.tab.configuration,
      mark: typing.isChanged ? t.unsaved : undefined,
      content: <Configuration model={model} typing={typing} />,
    },
    { id: "logs", label: t.tab.logs, content: <Logs model={model} /> },
    { id: "metrics", label: t.tab.metrics, content: <Metrics model={model} /> },
    { id: "test", label: t.tab.test, content: <Test model={model} /> },
    { id: "timeline", label: t.tab.timeline, content: <Timeline model={model} /> },
  ];
  if (model.lora_adapters?.length)
    tabs.push({ id: "lora", label: t.tab.lora, content: <Lora model={model} /> });
  return tabs;
}
