import { Ban, KeyRound, Pencil, Plus } from "lucide-react";
import { useState } from "react";
import type { Key, Query, Schema } from "@/api/types";
import { Gate } from "@/app/gate";
import { useKey, useKeys, useOwnKeys } from "@/data/keys";
import { hasRole, useMay, useMe } from "@/data/session";
import { useUser } from "@/data/users";
import { useT as useCommonT } from "@/i18n";
import { Button, IconButton } from "@/kit/button";
import { EmptyState } from "@/kit/empty-state";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Pager, usePage } from "@/kit/pager";
import { Panel } from "@/kit/panel";
import { Table } from "@/kit/table";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { useColumns } from "./columns";
import { CreateKey } from "./create-key";
import { EditKey } from "./edit-key";
import { Filters, STATES } from "./filters";
import { KeyDrawer } from "./key-drawer";
import { MadeKey } from "./made-key";
import { RevokeKey } from "./revoke-key";
import { useT } from "./t";

type Sort = NonNullable<NonNullable<Query<"listKeys">>["sort"]>;
const SORTS: Sort[] = ["name", "-name", "created_at", "-created_at", "last_used_at", "-last_used_at"];

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listOwnKeys" title={c.page.keys}>
      <Keys />
    </Gate>
  );
}

/** The keys of those whom one manages, and one's own. */
function Keys() {
  const t = useT();
  const c = useCommonT();
  const me = useMe();
  const may = useMay();
  const url = useUrl();
  const setUrl = useSetUrl();
  const [gone, setGone] = useState<Key | null>(null);
  const [made, setMade] = useState<Schema<"NewKey"> | null>(null);
  const manages = may("listKeys");
  const own = !manages || url.whose === "own";
  const withOrg = !own && me !== null && hasRole(me.role, "admin");

  const filter = {
    q: url.q?.slice(0, 200),
    status: STATES.find((it) => it === url.state),
    ...(own ? {} : { user_id: Number(url.user) || undefined, org_id: Number(url.org) || undefined }),
  };
  const at = usePage(JSON.stringify([own, filter]));
  const sort = SORTS.find((it) => it === url.sort) ?? "-created_at";
  // Keys get their ids in the order in which they are made, and the gateway has an index of ids only.
  const order = sort === "-created_at" ? "-id" : sort === "created_at" ? "id" : sort;
  const query = { ...filter, sort: order, limit: at.limit, offset: at.offset };
  const options = { refetchInterval: 10_000 };
  const ofAll = useKeys(query, { ...options, enabled: !own });
  const ofMine = useOwnKeys(query, { ...options, enabled: own });
  const list = own ? ofMine : ofAll;
  const opened = useKey(url.key ?? "", own);

  const open = (key: Key) => setUrl({ key: key.prefix }, { push: true });
  const close = () => setUrl({ key: undefined, dialog: undefined, for: undefined });
  // The page of a user leads here to make a key for them.
  const holder = useUser(manages ? (url.for ?? "") : "");
  const columns = useColumns({ own, withOrg, onOpen: open });
  const filtered = Object.values(filter).some(Boolean);
  const create = (
    <Button look="primary" icon={Plus} onClick={() => setUrl({ dialog: "create" })}>
      {t.create}
    </Button>
  );
  return (
    <>
      <PageHeader title={c.page.keys} actions={create} />
      <PageBody>
        <Filters manages={manages} own={own} withOrg={withOrg} sample={list.data?.items[0]} />
        <Panel flush>
          <Table
            label={c.page.keys}
            columns={columns}
            list={{ data: list.data?.items, error: list.error, refetch: list.refetch }}
            rowKey={(it) => it.id}
            defaultSort="-created_at"
            onRow={open}
            actions={(it) =>
              it.status !== "revoked" && (
                <>
                  {may("changeKey") && (
                    <IconButton
                      icon={Pencil}
                      size="sm"
                      label={t.editTitle(it.name || it.prefix)}
                      onClick={() => setUrl({ key: it.prefix, dialog: "edit" })}
                    />
                  )}
                  <IconButton
                    icon={Ban}
                    size="sm"
                    label={t.revokeThis(it.name || it.prefix)}
                    onClick={() => setGone(it)}
                  />
                </>
              )
            }
            empty={
              filtered ? (
                <EmptyState
                  title={t.notFound}
                  action={
                    <Button onClick={() => setUrl({ q: "", state: "", user: "", org: "" })}>
                      {t.clearFilters}
                    </Button>
                  }
                >
                  {t.notFoundText}
                </EmptyState>
              ) : (
                <EmptyState icon={KeyRound} title={t.none} action={create} command={t.createCommand}>
                  {t.noneText}
                </EmptyState>
              )
            }
          />
          <Pager at={at} total={list.data?.total} />
        </Panel>
      </PageBody>
      {url.dialog === "create" && !holder.isLoading && (
        <CreateKey
          holder={holder.data ?? undefined}
          onClose={close}
          onMade={(key) => {
            close();
            setMade(key);
          }}
        />
      )}
      {made && <MadeKey made={made} onClose={() => setMade(null)} />}
      {url.key && url.dialog !== "edit" && (
        <KeyDrawer
          prefix={url.key}
          found={opened}
          onClose={close}
          onEdit={may("changeKey") ? () => setUrl({ dialog: "edit" }) : undefined}
          onRevoke={setGone}
        />
      )}
      {url.key && url.dialog === "edit" && opened.data && (
        <EditKey latest={opened.data} onClose={() => setUrl({ dialog: undefined })} />
      )}
      <RevokeKey of={gone} own={own} onClose={() => setGone(null)} />
    </>
  );
}
