import type { ReactNode } from "react";
import { operations } from "@/api/operations";
import type { OperationId } from "@/api/types";
import { useMay } from "@/data/session";
import { useT } from "@/i18n";
import { EmptyState } from "@/kit/empty-state";
import { PageHeader } from "@/kit/page-header";

/** Shows a page to those who may call what it needs; others are told which role it takes. */
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
