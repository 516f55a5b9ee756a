import { useState } from "react";
import type { User } from "@/api/types";
import { useChangeUser, useDeleteUser } from "@/data/users";
import { Button } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { toast, toastError } from "@/kit/toast";
import { useIsLastOwner } from "./rights";
import { useT } from "./t";

/** Disabling and deleting a user, or why neither can be done. */
export function UserActions({ of, onDeleted }: { of: User; onDeleted: () => void }) {
  const t = useT();
  const change = useChangeUser();
  const remove = useDeleteUser();
  const last = useIsLastOwner(of);
  const [asks, setAsks] = useState<"disable" | "delete" | null>(null);
  const enable = () =>
    change.mutate(
      { id: of.id, body: { enabled: true } },
      { onSuccess: () => toast(t.enabled(of.username)), onError: (error) => toastError(error) },
    );
  return (
    <>
      {of.enabled ? (
        <Button size="sm" look="danger" disabled={last} onClick={() => setAsks("disable")}>
          {t.disable}
        </Button>
      ) : (
        <Button size="sm" busy={change.isPending} onClick={enable}>
          {t.enable}
        </Button>
      )}
      <Button size="sm" look="danger" disabled={last} onClick={() => setAsks("delete")}>
        {t.delete}
      </Button>
      <ConfirmDialog
        open={asks === "disable"}
        onClose={() => setAsks(null)}
        title={t.disableTitle(of.username)}
        consequence={t.disableText}
        action={t.disable}
        onConfirm={async () => {
          await change.mutateAsync({ id: of.id, body: { enabled: false } });
          toast(t.disabled(of.username));
        }}
      />
      <ConfirmDialog
        open={asks === "delete"}
        onClose={() => setAsks(null)}
        title={t.deleteTitle(of.username)}
        consequence={t.deleteText}
        action={t.delete}
        typed={of.username}
        onConfirm={async () => {
          await remove.mutateAsync(of.id);
          toast(t.deleted(of.username));
          onDeleted();
        }}
      />
    </>
  );
}
