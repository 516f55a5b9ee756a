import { Link2 } from "lucide-react";
import { useState } from "react";
import type { User } from "@/api/types";
import { useChangeUser, useDeleteUser } from "@/data/users";
import { Button } from "@/kit/button";
import { RecordActions } from "@/kit/record-actions";
import { PasswordLink } from "./password-link";
import { useIsLastOwner } from "./rights";
import { useT } from "./t";

/** A link to a new password, and disabling and deleting a user; the last owner can be neither. */
export function UserActions({ of, onDeleted }: { of: User; onDeleted: () => void }) {
  const t = useT();
  const change = useChangeUser();
  const remove = useDeleteUser();
  const [linking, setLinking] = useState(false);
  const locked = useIsLastOwner(of);
  return (
    <>
      {of.enabled && (
        <Button size="sm" icon={Link2} onClick={() => setLinking(true)}>
          {t.link.action}
        </Button>
      )}
      <RecordActions
        name={of.username}
        enabled={of.enabled}
        locked={locked}
        words={t}
        onEnabled={(enabled) => change.mutateAsync({ id: of.id, body: { enabled } })}
        onDelete={() => remove.mutateAsync(of.id)}
        onDeleted={onDeleted}
      />
      {linking && <PasswordLink of={of} onClose={() => setLinking(false)} />}
    </>
  );
}
