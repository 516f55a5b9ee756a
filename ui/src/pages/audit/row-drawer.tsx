import type { ReactNode } from "react";
import type { AuditRow } from "@/data/audit";
import { useFormat } from "@/i18n";
import { CopyButton } from "@/kit/copy";
import { Drawer } from "@/kit/drawer";
import { Facts } from "@/kit/facts";
import { Link } from "@/kit/link";
import { Diff } from "./diff";
import { useT } from "./t";
import { actionText, actorText } from "./words";

function Copied({ text }: { text: string }) {
  return (
    <span className="inline-flex max-w-full items-start gap-1">
      <code className="min-w-0 break-all font-mono text-xs leading-7">{text}</code>
      <CopyButton text={text} />
    </span>
  );
}

/** The page that shows an object, as long as it is there. */
function ObjectLink({ row, children }: { row: AuditRow; children: ReactNode }) {
  const { object_type: type, object_id: id } = row;
  if (row.action.endsWith(".delete")) return null;
  if (type === "model")
    return (
      <Link to="/models/$id" params={{ id }}>
        {children}
      </Link>
    );
  const of = (name: string) => text(row.after?.[name] ?? row.before?.[name]);
  const links = {
    user: { to: "/users", search: { name: of("username") } },
    org: { to: "/organisations", search: { name: of("name") } },
    key: { to: "/keys", search: { key: of("prefix") } },
  } as const;
  if (type === "user" || type === "org" || type === "key") return <Link {...links[type]}>{children}</Link>;
  if (type === "base_dir") return <Link to="/settings">{children}</Link>;
  if (type === "image") return <Link to="/images">{children}</Link>;
  if (type === "package") return <Link to="/deployment">{children}</Link>;
  return null;
}

const text = (value: unknown) => (typeof value === "string" ? value : undefined);

function tokenPrefix(row: AuditRow): string | undefined {
  const via = row.after?.via_token;
  return typeof via === "object" && via !== null && "prefix" in via ? text(via.prefix) : undefined;
}

/** All that a row says: who, when, from where, and what changed. */
export function RowDrawer({
  row,
  name,
  onClose,
}: {
  row: AuditRow;
  /** What its object is called, if that is known. */
  name: string | undefined;
  onClose: () => void;
}) {
  const t = useT();
  const format = useFormat();
  const prefix = tokenPrefix(row);
  const facts: [ReactNode, ReactNode][] = [
    [t.detail.when, format.dateTime(row.at)],
    [t.detail.who, `${actorText(row, t)}${prefix ? ` (${t.viaToken(prefix)})` : ""}`],
    [
      t.detail.object,
      <span key="object" className="flex flex-wrap gap-x-2">
        <bdi className="break-all">
          {t.objects[row.object_type]} {row.object_id}
          {name && ` · ${name}`}
        </bdi>
        <ObjectLink row={row}>{t.detail.openObject}</ObjectLink>
      </span>,
    ],
    [t.detail.from, row.ip ? <Copied key="ip" text={row.ip} /> : "–"],
    [
      t.detail.agent,
      <span key="agent" className="break-all">
        {row.user_agent ?? "–"}
      </span>,
    ],
    [t.detail.request, row.request_id ? <Copied key="request" text={row.request_id} /> : "–"],
    [t.detail.hash, <Copied key="hash" text={row.hash} />],
    [t.detail.prev, <Copied key="prev" text={row.prev_hash} />],
  ];
  return (
    <Drawer open onClose={onClose} title={`${t.row(format.integer(row.seq))} · ${row.action}`}>
      <div className="flex flex-col gap-5">
        <p className="break-words font-medium">
          {actorText(row, t)} {actionText(row, t)}
        </p>
        <Diff row={row} />
        <Facts facts={facts} />
        <div className="flex flex-wrap gap-x-4 gap-y-1 text-sm">
          <Link to="/audit" search={{ object_type: row.object_type, object_id: row.object_id }}>
            {t.detail.sameObject}
          </Link>
          {row.actor_id !== null && (
            <Link to="/audit" search={{ actor: String(row.actor_id) }}>
              {t.detail.sameActor}
            </Link>
          )}
        </div>
      </div>
    </Drawer>
  );
}
