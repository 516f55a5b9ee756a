import type { Organisation } from "@/api/types";
import { useChangeOrganisation, useDeleteOrganisation } from "@/data/orgs";
import { hasRole, useMay, useMe } from "@/data/session";
import { useOwners } from "@/data/users";
import { useFormat } from "@/i18n";
import { RecordActions } from "@/kit/record-actions";
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

/** Disabling and deleting an organisation; one that owners need can be neither. */
export function OrgActions({ of, onDeleted }: { of: Organisation; onDeleted: () => void }) {
  const t = useT();
  const may = useMay();
  const format = useFormat();
  const change = useChangeOrganisation();
  const remove = useDeleteOrganisation();
  const reason = useReason(of);
  if (!may("deleteOrganisation")) return null;
  const [users, keys] = [format.integer(of.user_count), format.integer(of.key_count)];
  return (
    <RecordActions
      name={of.name}
      enabled={of.enabled}
      locked={Boolean(reason)}
      words={{ ...t, disableText: t.disableText(users, keys), deleteText: t.deleteText(users, keys) }}
      onEnabled={(enabled) => change.mutateAsync({ id: of.id, body: { enabled } })}
      onDelete={() => remove.mutateAsync(of.id)}
      onDeleted={onDeleted}
    />
  );
}
