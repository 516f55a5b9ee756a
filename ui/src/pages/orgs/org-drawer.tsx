import { Pencil } from "lucide-react";
import type { Organisation } from "@/api/types";
import { useMay } from "@/data/session";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button } from "@/kit/button";
import { Facts } from "@/kit/facts";
import { LimitMeters } from "@/kit/limits/limit-meters";
import { ButtonLink } from "@/kit/link";
import { type Found, RecordDrawer } from "@/kit/record-drawer";
import { RelativeTime } from "@/kit/text";
import { OrgActions, useReason } from "./actions";
import { useT } from "./t";

type OrgDrawerProps = {
  name: string;
  found: Found<Organisation>;
  onClose: () => void;
  onEdit: () => void;
};

/** One organisation: its limits with what is used of them, and the ways to its users, keys and usage. */
export function OrgDrawer({ name, found, onClose, onEdit }: OrgDrawerProps) {
  const t = useT();
  return (
    <RecordDrawer title={name} found={found} gone={t.gone} onClose={onClose}>
      {(of) => <Opened of={of} onEdit={onEdit} onDeleted={onClose} />}
    </RecordDrawer>
  );
}

type OpenedProps = { of: Organisation; onEdit: () => void; onDeleted: () => void };

function Opened({ of, onEdit, onDeleted }: OpenedProps) {
  const t = useT();
  const may = useMay();
  const format = useFormat();
  const reason = useReason(of);
  return (
    <div className="flex flex-col gap-6">
      <div className="flex flex-wrap items-center gap-2">
        <StateBadge state={of.enabled ? "active" : "disabled"} />
        <span className="ml-auto flex flex-wrap justify-end gap-2">
          {may("changeOrganisation") && (
            <Button size="sm" icon={Pencil} onClick={onEdit}>
              {t.edit}
            </Button>
          )}
          <OrgActions of={of} onDeleted={onDeleted} />
        </span>
      </div>
      {reason && <p className="-mt-3 max-w-[72ch] text-ink-2 text-sm">{reason}</p>}
      <Facts
        facts={[
          [t.columns.users, format.integer(of.user_count)],
          [t.columns.keys, format.integer(of.key_count)],
          [t.columns.created, <RelativeTime key="c" at={of.created_at} />],
        ]}
      />
      <div className="flex flex-wrap gap-2">
        <ButtonLink size="sm" to="/users" search={{ org: String(of.id) }}>
          {t.theirUsers}
        </ButtonLink>
        <ButtonLink size="sm" to="/keys" search={{ org: String(of.id) }}>
          {t.theirKeys}
        </ButtonLink>
        <ButtonLink size="sm" to="/usage" search={{ org: String(of.id) }}>
          {t.theirUsage}
        </ButtonLink>
      </div>
      <section className="flex flex-col gap-3">
        <h3 className="font-semibold">
          {t.limits} <span className="font-normal text-ink-3 text-sm">{t.limitsNote}</span>
        </h3>
        <LimitMeters limits={of} budget={of.budget} />
      </section>
    </div>
  );
}
