import type { Key } from "@/api/types";
import { useRevokeKey, useRevokeOwnKey } from "@/data/keys";
import { useFormat } from "@/i18n";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { toast } from "@/kit/toast";
import { useT } from "./t";

type RevokeKeyProps = { of: Key | null; own: boolean; onClose: () => void };

/** Asks before a key is revoked, and says when it was last used. */
export function RevokeKey({ of, own, onClose }: RevokeKeyProps) {
  const t = useT();
  const format = useFormat();
  const revokeOwn = useRevokeOwnKey();
  const revoke = useRevokeKey();
  const name = of?.name || of?.prefix || "";
  const used = of?.last_used_at
    ? t.lastUsed(format.relative(of.last_used_at, Date.now()), format.dateTime(of.last_used_at))
    : t.neverUsed;
  return (
    <ConfirmDialog
      open={of !== null}
      onClose={onClose}
      title={t.revokeTitle(name)}
      consequence={t.revokeText(used)}
      action={t.revoke}
      onConfirm={async () => {
        if (!of) return;
        await (own ? revokeOwn : revoke).mutateAsync(of.id);
        toast(t.revoked(name));
      }}
    />
  );
}
