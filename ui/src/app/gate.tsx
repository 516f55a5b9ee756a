import type { ReactNode } from "react";
import { operations } from "@/api/operations";
import type { OperationId } from "@/api/types";
import { useMay } from "@/data/session";
import { useT } from "@/i18n";
import { EmptyState } from "@/kit/empty-state";
import { PageHeader } from "@/kit/page-header";

/** Shows a page to users who may call the operations that it needs. Other users see which role the page takes. */
export function Gate({ needs, title, children }: { needs: OperationId; title: string; children: ReactNode }) {
  const t = useT();
  const { role } = operations[needs];
  if (useMay()(needs) || role === null) return children;
  return (
    <>
      <PageHeader title={title} />
      <EmptyState title={t.shell.noRole(t.role[role])}>{t.shell.noRoleText}</EmptyState>
    </>
  );
}
