import { Building2, Pencil, Plus } from "lucide-react";
import type { Organisation, Query } from "@/api/types";
import { Allowed, Gate } from "@/app/gate";
import { useOrganisation, useOrganisations } from "@/data/orgs";
import { useMay } from "@/data/session";
import { useT as useCommonT, useFormat } from "@/i18n";
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
import { type Column, Table } from "@/kit/table";
import { RelativeTime } from "@/kit/text";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { OrgDrawer } from "./org-drawer";
import { OrgForm } from "./org-form";
import { useT } from "./t";

type Sort = NonNullable<NonNullable<Query<"listOrganisations">>["sort"]>;
const SORTS: Sort[] = ["name", "-name", "created_at", "-created_at"];

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listOrganisations" title={c.page.organisations}>
      <Organisations />
    </Gate>
  );
}

function useColumns(onOpen: (org: Organisation) => void): Column<Organisation>[] {
  const t = useT();
  const format = useFormat();
  return [
    {
      id: "name",
      head: t.columns.name,
      sort: "name",
      cell: (it) => <NameButton name={it.name} label={t.open(it.name)} onPress={() => onOpen(it)} />,
    },
    { id: "users", head: t.columns.users, numeric: true, cell: (it) => format.integer(it.user_count) },
    { id: "keys", head: t.columns.keys, numeric: true, cell: (it) => format.integer(it.key_count) },
    {
      id: "limits",
      head: t.columns.limits,
      wide: true,
      cell: (it) => <LimitsInShort limits={it} budget={it.budget} />,
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
}

/** The organisations that one may see: all of them, or one's own. */
function Organisations() {
  const t = useT();
  const c = useCommonT();
  const may = useMay();
  const url = useUrl();
  const setUrl = useSetUrl();
  const q = url.q?.slice(0, 200);
  const at = usePage(q ?? "");
  const sort = SORTS.find((it) => it === url.sort) ?? "name";
  const list = useOrganisations({ q, sort, limit: at.limit, offset: at.offset }, { refetchInterval: 10_000 });
  const opened = useOrganisation(url.name ?? "");
  const known = useLastKnown(opened.data, url.name ?? "");
  const edited = url.name && url.dialog === "edit" ? known : null;
  const open = (org: Organisation) => setUrl({ name: org.name }, { push: true });
  const close = () => setUrl({ name: undefined, dialog: undefined });
  const create = may("createOrganisation") && (
    <Button look="primary" icon={Plus} onClick={() => setUrl({ dialog: "create" })}>
      {t.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={c.page.organisations} actions={create} />
      <PageBody>
        <SearchInput label={t.search} />
        <Panel flush>
          <Table
            label={c.page.organisations}
            columns={useColumns(open)}
            list={{ data: list.data?.items, error: list.error, refetch: list.refetch }}
            rowKey={(it) => it.id}
            defaultSort="name"
            onRow={open}
            actions={
              may("changeOrganisation")
                ? (it) => (
                    <IconButton
                      icon={Pencil}
                      size="sm"
                      label={t.editTitle(it.name)}
                      onClick={() => setUrl({ name: it.name, dialog: "edit" })}
                    />
                  )
                : undefined
            }
            empty={
              q ? (
                <EmptyState
                  title={t.notFound}
                  action={<Button onClick={() => setUrl({ q: "" })}>{c.do.clear}</Button>}
                />
              ) : (
                <EmptyState icon={Building2} title={t.none} action={create} command={t.createCommand}>
                  {t.noneText}
                </EmptyState>
              )
            }
          />
          <Pager at={at} total={list.data?.total} />
        </Panel>
      </PageBody>
      {url.dialog === "create" && (
        <Allowed needs="createOrganisation">
          <OrgForm onClose={close} />
        </Allowed>
      )}
      {url.name && url.dialog !== "edit" && (
        <OrgDrawer name={url.name} found={opened} onClose={close} onEdit={() => setUrl({ dialog: "edit" })} />
      )}
      {edited && <OrgForm of={edited} onClose={close} />}
    </>
  );
}
