import { Activity, type ReactNode, useState } from "react";
import { operations } from "@/api/operations";
import type { OperationId } from "@/api/types";
import { useMay } from "@/data/session";
import { useT } from "@/i18n";
import { EmptyState } from "@/kit/empty-state";
import { PageHeader } from "@/kit/page-header";

/**
 * Shows what a role may use. If the role is lowered meanwhile, it is hidden and asks nothing any more, but what was typed there is
 * kept for the time when the role is back.
 */
export function Allowed({ needs, children }: { needs: OperationId; children: ReactNode }) {
  const may = useMay()(needs);
  const [shown, setShown] = useState(may);
  if (may && !shown) setShown(true);
  return shown && <Activity mode={may ? "visible" : "hidden"}>{children}</Activity>;
}

/** Shows a page to users who may call the operations that it needs. Other users see which role the page takes. */
export function Gate({ needs, title, children }: { needs: OperationId; title: string; children: ReactNode }) {
  const t = useT();
  const { role } = operations[needs];
  const may = useMay()(needs);
  return (
    <>
      {!may && role !== null && (
        <>
          <PageHeader title={title} />
          <EmptyState title={t.shell.noRole(t.role[role])}>{t.shell.noRoleText}</EmptyState>
        </>
      )}
      <Allowed needs={needs}>{children}</Allowed>
    </>
  );
}
