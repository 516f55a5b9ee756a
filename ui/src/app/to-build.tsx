import { useT } from "@/i18n";
import { EmptyState } from "@/kit/empty-state";
import { PageHeader } from "@/kit/page-header";

/** Takes the place of a page that is not built yet. */
export function ToBuild({ title }: { title: string }) {
  const t = useT();
  return (
    <>
      <PageHeader title={title} />
      <EmptyState title={t.page.toBuild(title)} />
    </>
  );
}
