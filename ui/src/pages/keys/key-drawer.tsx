import { Ban, ChartNoAxesColumn, Pencil } from "lucide-react";
import type { ReactNode } from "react";
import type { Key } from "@/api/types";
import { useT as useCommonT } from "@/i18n";
import { Badge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Facts } from "@/kit/facts";
import { LimitMeters } from "@/kit/limits/limit-meters";
import { ButtonLink } from "@/kit/link";
import { type Found, RecordDrawer } from "@/kit/record-drawer";
import { RelativeTime } from "@/kit/text";
import { KeyState } from "./key-state";
import { scopesOf } from "./key-values";
import { useT } from "./t";
import { TestKey } from "./test-key";
import { UseIt } from "./use-it";

type KeyDrawerProps = {
  prefix: string;
  found: Found<Key>;
  onClose: () => void;
  /** Left out where the role does not allow it. */
  onEdit?: () => void;
  onRevoke: (key: Key) => void;
};

/** One key: what it may do, what it has used, and how to use it. */
export function KeyDrawer({ prefix, found, onClose, onEdit, onRevoke }: KeyDrawerProps) {
  const t = useT();
  return (
    <RecordDrawer
      title={found.data?.name || `${prefix}…`}
      found={found}
      gone={t.drawer.gone}
      onClose={onClose}
    >
      {(of) => <Opened of={of} onEdit={onEdit} onRevoke={() => onRevoke(of)} />}
    </RecordDrawer>
  );
}

function Opened({ of, onEdit, onRevoke }: { of: Key; onEdit?: () => void; onRevoke: () => void }) {
  const t = useT();
  const c = useCommonT();
  const revoked = of.status === "revoked";
  return (
    <div className="flex flex-col gap-6">
      <div className="flex flex-wrap items-center gap-2">
        <KeyState of={of} />
        {of.limit_mode === "shadow" && <Badge tone="warn">{t.shadow}</Badge>}
        <span className="ml-auto flex flex-wrap gap-2">
          <ButtonLink to="/usage" search={{ key: String(of.id) }} size="sm">
            <ChartNoAxesColumn aria-hidden className="size-4" />
            {t.drawer.usage}
          </ButtonLink>
          {onEdit && !revoked && (
            <Button size="sm" icon={Pencil} onClick={onEdit}>
              {t.edit}
            </Button>
          )}
          {!revoked && (
            <Button size="sm" icon={Ban} look="danger" onClick={onRevoke}>
              {t.revoke}
            </Button>
          )}
        </span>
      </div>
      <Facts
        facts={[
          [
            t.columns.prefix,
            <code key="p" className="font-mono text-xs">
              {of.prefix}…
            </code>,
          ],
          [t.columns.owner, of.username ?? t.ofOrg],
          [t.columns.org, of.org_name],
          [
            t.columns.scopes,
            scopesOf(of)
              .map((it) => t.scope[it])
              .join(", "),
          ],
          [t.columns.models, of.models?.join(", ") ?? t.allModels],
          [
            t.columns.addresses,
            of.ip_allowlist.length > 0 ? (
              <code key="i" className="font-mono text-xs">
                {of.ip_allowlist.join(", ")}
              </code>
            ) : (
              t.everywhere
            ),
          ],
          [t.columns.created, <RelativeTime key="c" at={of.created_at} />],
          [t.columns.used, <RelativeTime key="u" at={of.last_used_at} />],
          [t.columns.expires, <RelativeTime key="e" at={of.expires_at} />],
          ...(of.revoked_at
            ? [[c.state.revoked, <RelativeTime key="r" at={of.revoked_at} />] as [string, ReactNode]]
            : []),
        ]}
      />
      <section className="flex flex-col gap-3">
        <h3 className="font-semibold">
          {t.drawer.limits} <span className="font-normal text-ink-3 text-sm">{t.drawer.inForce}</span>
        </h3>
        <LimitMeters limits={of.effective_limits} budget={of.budget} />
      </section>
      {of.status === "active" && (
        <>
          <UseIt models={of.models} />
          <TestKey models={of.models} prefix={of.prefix} />
        </>
      )}
    </div>
  );
}
