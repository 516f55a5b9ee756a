import { ChartNoAxesColumn, Pencil } from "lucide-react";
import type { User } from "@/api/types";
import { useT as useCommonT } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Facts } from "@/kit/facts";
import { LimitMeters } from "@/kit/limits/limit-meters";
import { ButtonLink } from "@/kit/link";
import { type Found, RecordDrawer } from "@/kit/record-drawer";
import { RelativeTime } from "@/kit/text";
import { UserActions } from "./actions";
import { UserKeys, UserTokens } from "./holdings";
import { useIsLastOwner, useRights } from "./rights";
import { useT } from "./t";

type UserDrawerProps = {
  name: string;
  found: Found<User>;
  onClose: () => void;
  onEdit: () => void;
};

/** One user: what they may use, what they used of it, their keys and tokens. */
export function UserDrawer({ name, found, onClose, onEdit }: UserDrawerProps) {
  const t = useT();
  return (
    <RecordDrawer title={name} found={found} gone={t.gone} onClose={onClose}>
      {(of) => <Opened of={of} onEdit={onEdit} onDeleted={onClose} />}
    </RecordDrawer>
  );
}

function Opened({ of, onEdit, onDeleted }: { of: User; onEdit: () => void; onDeleted: () => void }) {
  const t = useT();
  const c = useCommonT();
  const mayTouch = useRights().mayTouch(of);
  const last = useIsLastOwner(of);
  return (
    <div className="flex flex-col gap-6">
      <div className="flex flex-wrap items-center gap-2">
        <StateBadge state={of.enabled ? "active" : "disabled"} />
        <span className="ml-auto flex flex-wrap justify-end gap-2">
          <ButtonLink to="/usage" search={{ user: String(of.id) }} size="sm">
            <ChartNoAxesColumn aria-hidden className="size-4" />
            {t.usage}
          </ButtonLink>
          {mayTouch && (
            <>
              <Button size="sm" icon={Pencil} onClick={onEdit}>
                {t.edit}
              </Button>
              <UserActions of={of} onDeleted={onDeleted} />
            </>
          )}
        </span>
      </div>
      {(!mayTouch || last) && (
        <p className="-mt-3 max-w-[72ch] text-ink-2 text-sm">{mayTouch ? t.lastOwner : t.beyond}</p>
      )}
      <Facts
        facts={[
          [t.columns.role, c.role[of.role]],
          [t.columns.org, of.org_name],
          [t.columns.models, of.models?.join(", ") ?? t.allModels],
          [t.columns.login, <RelativeTime key="l" at={of.last_login_at} />],
          [t.columns.created, <RelativeTime key="c" at={of.created_at} />],
        ]}
      />
      <section className="flex flex-col gap-3">
        <h3 className="font-semibold">
          {t.limits} <span className="font-normal text-ink-3 text-sm">{t.limitsNote}</span>
        </h3>
        <LimitMeters limits={of} budget={of.budget} />
      </section>
      <UserKeys of={of} />
      <UserTokens of={of} mayRevoke={mayTouch} />
    </div>
  );
}
