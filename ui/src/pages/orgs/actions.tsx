import { useState } from "react";
import type { Organisation } from "@/api/types";
import { useChangeOrganisation, useDeleteOrganisation } from "@/data/orgs";
import { hasRole, useMay, useMe } from "@/data/session";
import { useOwners } from "@/data/users";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { toast, toastError } from "@/kit/toast";
import { useT } from "./t";

/** Why an organisation can't be disabled or deleted by the signed-in user; `undefined`: it can. */
export function useReason(of: Organisation): string | undefined {
  const t = useT();
  const me = useMe();
  const owners = useOwners(useMay()("deleteOrganisation")).data ?? [];
  if (!owners.some((it) => it.org_id === of.id)) return undefined;
  if (me && !hasRole(me.role, "owner")) return t.anOwner;
  return owners.every((it) => it.org_id === of.id) ? t.lastOwner : undefined;
}

/** Disabling and deleting an organisation, or why neither can be done. */
export function OrgActions({ of, onDeleted }: { of: Organisation; onDeleted: () => void }) {
  const t = useT();
  const may = useMay();
  const format = useFormat();
  const change = useChangeOrganisation();
  const remove = useDeleteOrganisation();
  const [asks, setAsks] = useState<"disable" | "delete" | null>(null);
  const reason = useReason(of);
  if (!may("deleteOrganisation")) return null;
  const [users, keys] = [format.integer(of.user_count), format.integer(of.key_count)];
  const enable = () =>
    change.mutate(
      { id: of.id, body: { enabled: true } },
      { onSuccess: () => toast(t.enabled(of.name)), onError: (error) => toastError(error) },
    );
  return (
    <>
      {of.enabled ? (
        <Button size="sm" look="danger" disabled={Boolean(reason)} onClick={() => setAsks("disable")}>
          {t.disable}
        </Button>
      ) : (
        <Button size="sm" busy={change.isPending} onClick={enable}>
          {t.enable}
        </Button>
      )}
      <Button size="sm" look="danger" disabled={Boolean(reason)} onClick={() => setAsks("delete")}>
        {t.delete}
      </Button>
      <ConfirmDialog
        open={asks === "disable"}
        onClose={() => setAsks(null)}
        title={t.disableTitle(of.name)}
        consequence={t.disableText(users, keys)}
        action={t.disable}
        onConfirm={async () => {
          await change.mutateAsync({ id: of.id, body: { enabled: false } });
          toast(t.disabled(of.name));
        }}
      />
      <ConfirmDialog
        open={asks === "delete"}
        onClose={() => setAsks(null)}
        title={t.deleteTitle(of.name)}
        consequence={t.deleteText(users, keys)}
        action={t.delete}
        typed={of.name}
        onConfirm={async () => {
          await remove.mutateAsync(of.id);
          toast(t.deleted(of.name));
          onDeleted();
        }}
      />
    </>
  );
}
