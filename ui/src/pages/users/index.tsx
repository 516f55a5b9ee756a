import { Pencil, Plus, Users as UsersIcon } from "lucide-react";
import type { Query, User } from "@/api/types";
import { Gate } from "@/app/gate";
import { PickOrganisation } from "@/app/pick";
import { useUser, useUsers } from "@/data/users";
import { useT as useCommonT } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { Button, IconButton } from "@/kit/button";
import { EmptyState } from "@/kit/empty-state";
import { useLastKnown } from "@/kit/last-known";
import { LimitsInShort } from "@/kit/limits/limit-meters";
import { NameButton } from "@/kit/name-button";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Pager, usePage } from "@/kit/pager";
import { Panel } from "@/kit/panel";
import { SearchInput } from "@/kit/search-input";
import { Select } from "@/kit/select";
import { type Column, Table } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { ROLES, useRights } from "./rights";
import { useT } from "./t";
import { UserDrawer } from "./user-drawer";
import { UserForm } from "./user-form";

type Sort = NonNullable<NonNullable<Query<"listUsers">>["sort"]>;
const SORTS: Sort[] = [
  "username",
  "-username",
  "created_at",
  "-created_at",
  "last_login_at",
  "-last_login_at",
];

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listUsers" title={c.page.users}>
      <Users />
    </Gate>
  );
}

function useColumns(onOpen: (user: User) => void): Column<User>[] {
  const t = useT();
  const c = useCommonT();
  const { global, me } = useRights();
  const all: (Column<User> | false)[] = [
    {
      id: "name",
      head: t.columns.name,
      sort: "username",
      cell: (it) => (
        <span className="flex items-center gap-2">
          <NameButton name={it.username} label={t.open(it.username)} onPress={() => onOpen(it)} />
          {it.id === me?.id && <span className="text-ink-3 text-xs">{t.you}</span>}
        </span>
      ),
    },
    { id: "role", head: t.columns.role, cell: (it) => c.role[it.role] },
    global && {
      id: "org",
      head: t.columns.org,
      wide: true,
      cell: (it) => <Middle text={it.org_name} className="max-w-48" />,
    },
    {
      id: "models",
      head: t.columns.models,
      wide: true,
      cell: (it) => (
        <span className="block max-w-48 truncate" title={it.models?.join(", ")}>
          {it.models?.join(", ") ?? t.allModels}
        </span>
      ),
    },
    {
      id: "limits",
      head: t.columns.limits,
      wide: true,
      cell: (it) => <LimitsInShort limits={it} budget={it.budget} />,
    },
    {
      id: "login",
      head: t.columns.login,
      sort: "last_login_at",
      wide: true,
      cell: (it) => <RelativeTime inList at={it.last_login_at} />,
    },
    {
      id: "created",
      head: t.columns.created,
      sort: "created_at",
      wide: true,
      cell: (it) => <RelativeTime inList at={it.created_at} />,
    },
    {
      id: "state",
      head: t.columns.state,
      cell: (it) => <StateBadge state={it.enabled ? "active" : "disabled"} />,
    },
  ];
  return all.filter((it) => it !== false);
}

/** The users that one may see: all of them, or those of one's organisation. */
function Users() {
  const t = useT();
  const c = useCommonT();
  const { global, mayTouch } = useRights();
  const url = useUrl();
  const setUrl = useSetUrl();
  const filter = {
    q: url.q?.slice(0, 200),
    role: ROLES.find((it) => it === url.role),
    org_id: global ? Number(url.org) || undefined : undefined,
  };
  const at = usePage(JSON.stringify(filter));
  const sort = SORTS.find((it) => it === url.sort) ?? "username";
  const list = useUsers({ ...filter, sort, limit: at.limit, offset: at.offset }, { refetchInterval: 10_000 });
  const opened = useUser(url.name ?? "");
  const known = useLastKnown(opened.data, url.name ?? "");
  const edited = url.name && url.dialog === "edit" ? known : null;
  const open = (user: User) => setUrl({ name: user.username }, { push: true });
  const close = () => setUrl({ name: undefined, dialog: undefined });
  const create = (
    <Button look="primary" icon={Plus} onClick={() => setUrl({ dialog: "create" })}>
      {t.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={c.page.users} actions={create} />
      <PageBody>
        <div className="flex flex-wrap items-center gap-2">
          <SearchInput label={t.search} />
          <Select
            compact
            aria-label={t.columns.role}
            value={url.role ?? ""}
            onValue={(to) => setUrl({ role: to })}
            options={[
              { value: "", label: t.allRoles },
              ...ROLES.map((value) => ({ value, label: c.role[value] })),
            ]}
          />
          {global && (
            <div className="w-48">
              <PickOrganisation
                aria-label={t.columns.org}
                placeholder={t.columns.org}
                value={Number(url.org) || null}
                name={list.data?.items[0]?.org_id === Number(url.org) ? list.data.items[0].org_name : null}
                onValue={(to) => setUrl({ org: to === null ? "" : String(to) })}
              />
            </div>
          )}
        </div>
        <Panel flush>
          <Table
            label={c.page.users}
            columns={useColumns(open)}
            list={{ data: list.data?.items, error: list.error, refetch: list.refetch }}
            rowKey={(it) => it.id}
            defaultSort="username"
            onRow={open}
            actions={(it) =>
              mayTouch(it) && (
                <IconButton
                  icon={Pencil}
                  size="sm"
                  label={t.editTitle(it.username)}
                  onClick={() => setUrl({ name: it.username, dialog: "edit" })}
                />
              )
            }
            empty={
              Object.values(filter).some(Boolean) ? (
                <EmptyState
                  title={t.notFound}
                  action={
                    <Button onClick={() => setUrl({ q: "", role: "", org: "" })}>{t.clearFilters}</Button>
                  }
                />
              ) : (
                <EmptyState icon={UsersIcon} title={t.none} action={create} command={t.createCommand}>
                  {t.noneText}
                </EmptyState>
              )
            }
          />
          <Pager at={at} total={list.data?.total} />
        </Panel>
      </PageBody>
      {url.dialog === "create" && <UserForm onClose={close} />}
      {url.name && url.dialog !== "edit" && (
        <UserDrawer
          name={url.name}
          found={opened}
          onClose={close}
          onEdit={() => setUrl({ dialog: "edit" })}
        />
      )}
      {edited && <UserForm of={edited} onClose={close} />}
    </>
  );
}
