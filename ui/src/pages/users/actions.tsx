import type { User } from "@/api/types";
import { useChangeUser, useDeleteUser } from "@/data/users";
import { RecordActions } from "@/kit/record-actions";
import { useIsLastOwner } from "./rights";
import { useT } from "./t";

/** Disabling and deleting a user; the last owner can be neither. */
export function UserActions({ of, onDeleted }: { of: User; onDeleted: () => void }) {
  const change = useChangeUser();
  const remove = useDeleteUser();
  return (
    <RecordActions
      name={of.username}
      enabled={of.enabled}
      locked={useIsLastOwner(of)}
      words={useT()}
      onEnabled={(enabled) => change.mutateAsync({ id: of.id, body: { enabled } })}
      onDelete={() => remove.mutateAsync(of.id)}
      onDeleted={onDeleted}
    />
  );
}
