import { useState } from "react";
import type { Item, User } from "@/api/types";
import { useKeys } from "@/data/keys";
import { useMay } from "@/data/session";
import { useRevokeToken, useTokens } from "@/data/tokens";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { ErrorNote } from "@/kit/error-state";
import { ButtonLink, Link } from "@/kit/link";
import { Middle, RelativeTime } from "@/kit/text";
import { toast } from "@/kit/toast";
import { useT } from "./t";

const ROW = "flex items-center gap-3 border-line border-b py-1.5 text-sm last:border-b-0";
const SHOWN = 10;

/** The keys of a user, the newest first. */
export function UserKeys({ of }: { of: User }) {
  const t = useT();
  const format = useFormat();
  const may = useMay();
  const keys = useKeys({ user_id: of.id, sort: "-created_at", limit: SHOWN });
  return (
    <section className="flex flex-col gap-1">
      <div className="flex items-center gap-2">
        <h3 className="font-semibold">{t.keys}</h3>
        {may("createKey") && (
          <ButtonLink
            to="/keys"
            search={{ dialog: "create", for: of.username }}
            size="sm"
            className="ml-auto"
          >
            {t.createKey}
          </ButtonLink>
        )}
      </div>
      {keys.error && <ErrorNote error={keys.error} />}
      {keys.data?.total === 0 && <p className="text-ink-3 text-sm">{t.noKeys}</p>}
      <ul>
        {keys.data?.items.map((it) => (
          <li key={it.id} className={ROW}>
            <Link to="/keys" search={{ key: it.prefix }} className="flex min-w-0 flex-1">
              <Middle text={it.name || `${it.prefix}…`} />
            </Link>
            <span className="text-ink-3">
              {t.used} <RelativeTime at={it.last_used_at} />
            </span>
            <StateBadge state={it.status === "holder_disabled" ? "disabled" : it.status} />
          </li>
        ))}
      </ul>
      {(keys.data?.total ?? 0) > SHOWN && (
        <Link to="/keys" search={{ user: String(of.id) }} className="self-start text-sm">
          {t.allKeys(format.integer(keys.data?.total ?? 0))}
        </Link>
      )}
    </section>
  );
}

/** The tokens of a user for the admin API, which can be revoked. */
export function UserTokens({ of, mayRevoke }: { of: User; mayRevoke: boolean }) {
  const t = useT();
  const tokens = useTokens({ user_id: of.id, limit: 1000 });
  const revoke = useRevokeToken();
  const [gone, setGone] = useState<Item<"listTokens"> | null>(null);
  return (
    <section className="flex flex-col gap-1">
      <h3 className="font-semibold">{t.tokens}</h3>
      {tokens.error && <ErrorNote error={tokens.error} />}
      {tokens.data?.length === 0 && <p className="text-ink-3 text-sm">{t.noTokens}</p>}
      <ul>
        {tokens.data?.map((it) => (
          <li key={it.id} className={ROW}>
            <span className="min-w-0 flex-1">
              <Middle text={it.name} />
              <span className="block truncate text-ink-3 text-xs" title={it.scopes}>
                {it.scopes.replaceAll(",", ", ")}
              </span>
            </span>
            <span className="text-ink-3">
              {t.expires} <RelativeTime at={it.expires_at} />
            </span>
            {mayRevoke && (
              <Button size="sm" look="danger" onClick={() => setGone(it)}>
                {t.revokeToken}
              </Button>
            )}
          </li>
        ))}
      </ul>
      <ConfirmDialog
        open={gone !== null}
        onClose={() => setGone(null)}
        title={t.revokeTokenTitle(gone?.name ?? "")}
        consequence={t.revokeTokenText}
        action={t.revokeToken}
        onConfirm={async () => {
          if (!gone) return;
          await revoke.mutateAsync(gone.id);
          toast(t.tokenRevoked(gone.name));
        }}
      />
    </section>
  );
}
