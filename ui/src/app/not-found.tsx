import { useT } from "@/i18n";
import { EmptyState } from "@/kit/empty-state";
import { ButtonLink } from "@/kit/link";
import { PageHeader } from "@/kit/page-header";

/** An address without a page. */
export function NotFound() {
  const t = useT();
  return (
    <>
      <PageHeader title={t.page.notFound} />
      <EmptyState title={t.page.notFoundText} action={<ButtonLink to="/">{t.page.overview}</ButtonLink>} />
    </>
  );
}
