import { Plus } from "lucide-react";
import { useState } from "react";
import type { Item } from "@/api/types";
import { useOwnTokens, useRevokeOwnToken } from "@/data/tokens";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { EmptyState } from "@/kit/empty-state";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { toast } from "@/kit/toast";
import { useUrlState } from "@/kit/url-state";
import { CreateToken } from "./create-token";
import { useT } from "./t";

type Token = Item<"listOwnTokens">;

/** One's own tokens. */
export function Tokens() {
  const t = useT();
  const tokens = useOwnTokens();
  const revoke = useRevokeOwnToken();
  const [dialog, setDialog] = useUrlState("dialog");
  const [gone, setGone] = useState<Token | null>(null);
  const create = (
    <Button icon={Plus} onClick={() => setDialog("create-token")}>
      {t.createToken}
    </Button>
  );
  const columns: Column<Token>[] = [
    { id: "name", head: t.columns.name, cell: (it) => <Middle text={it.name} /> },
    {
      id: "prefix",
      head: t.columns.prefix,
      cell: (it) => <code className="font-mono text-xs">{it.prefix}…</code>,
      wide: true,
    },
    { id: "scopes", head: t.columns.scopes, cell: (it) => <Middle text={it.scopes.replaceAll(",", ", ")} /> },
    { id: "used", head: t.columns.used, cell: (it) => <RelativeTime at={it.last_used_at} />, wide: true },
    { id: "expires", head: t.columns.expires, cell: (it) => <RelativeTime at={it.expires_at} />, wide: true },
    {
      id: "state",
      head: t.columns.state,
      cell: (it) =>
        it.status === "holder_disabled" ? (
          <StateBadge state="disabled">{t.holderDisabled}</StateBadge>
        ) : (
          <StateBadge state={it.status} />
        ),
    },
  ];
  return (
    <Panel title={t.tokens} note={t.tokensNote} actions={tokens.data?.length ? create : undefined} flush>
      <Table
        label={t.tokens}
        columns={columns}
        list={tokens}
        rowKey={(it) => it.id}
        empty={<EmptyState title={t.noTokens} action={create} command={t.createCommand} />}
        actions={(it) => (
          <Button size="sm" look="danger" onClick={() => setGone(it)}>
            {t.revoke}
          </Button>
        )}
      />
      {dialog === "create-token" && <CreateToken onClose={() => setDialog("")} />}
      <ConfirmDialog
        open={gone !== null}
        onClose={() => setGone(null)}
        title={t.revokeTitle(gone?.name ?? "")}
        consequence={t.revokeText}
        action={t.revoke}
        onConfirm={async () => {
          if (!gone) return;
          await revoke.mutateAsync(gone.id);
          toast(t.revoked(gone.name));
        }}
      />
    </Panel>
  );
}
