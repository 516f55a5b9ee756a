import type { Key } from "@/api/types";
import { useT as useCommonT } from "@/i18n";
import { LimitsInShort } from "@/kit/limits/limit-meters";
import { NameButton } from "@/kit/name-button";
import type { Column } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { KeyState } from "./key-state";
import { scopesOf } from "./key-values";
import { useT } from "./t";

type Given = { own: boolean; withOrg: boolean; onOpen: (key: Key) => void };

/** The columns of the list of keys. A user who sees only one organisation needs no column that names it. */
export function useColumns({ own, withOrg, onOpen }: Given): Column<Key>[] {
  const t = useT();
  const c = useCommonT();
  const all: (Column<Key> | false)[] = [
    {
      id: "name",
      head: t.columns.name,
      sort: "name",
      cell: (it) => (
        <NameButton
          name={it.name || t.unnamed}
          faint={!it.name}
          label={t.open(it.name || it.prefix)}
          onPress={() => onOpen(it)}
        />
      ),
    },
    { id: "state", head: t.columns.state, cell: (it) => <KeyState of={it} /> },
    {
      id: "prefix",
      head: t.columns.prefix,
      wide: true,
      cell: (it) => <code className="whitespace-nowrap font-mono text-xs">{it.prefix}…</code>,
    },
    !own && {
      id: "owner",
      head: t.columns.owner,
      wide: true,
      cell: (it) => (
        <span className="flex max-w-44 gap-1.5">
          {it.username === null ? (
            <span className="text-ink-3">{t.ofOrg}</span>
          ) : (
            <Middle text={it.username} />
          )}
          {withOrg && (
            <bdi className="truncate text-ink-3" title={it.org_name}>
              {it.org_name}
            </bdi>
          )}
        </span>
      ),
    },
    {
      id: "scopes",
      head: t.columns.scopes,
      extra: true,
      cell: (it) => {
        const words = scopesOf(it).map((scope) => t.scope[scope]);
        const text = words.length === 3 ? t.allModels : words.join(", ");
        return (
          <span className="block max-w-40 truncate" title={words.join(", ")}>
            {text}
          </span>
        );
      },
    },
    {
      id: "models",
      head: t.columns.models,
      wide: true,
      cell: (it) => (
        <span className="block max-w-28 truncate" title={it.models?.join(", ")}>
          {it.models?.join(", ") ?? t.allModels}
        </span>
      ),
    },
    {
      id: "created",
      head: t.columns.created,
      sort: "created_at",
      wide: true,
      cell: (it) => <RelativeTime inList at={it.created_at} />,
    },
    {
      id: "used",
      head: t.columns.used,
      sort: "last_used_at",
      wide: true,
      cell: (it) => <RelativeTime inList at={it.last_used_at} />,
    },
    {
      id: "expires",
      head: t.columns.expires,
      wide: true,
      cell: (it) =>
        it.expires_at ? (
          <RelativeTime inList at={it.expires_at} />
        ) : (
          <span className="text-ink-3">{c.word.never}</span>
        ),
    },
    {
      id: "limits",
      head: t.columns.limits,
      wide: true,
      cell: (it) => <LimitsInShort limits={it.effective_limits} budget={it.budget} />,
    },
  ];
  return all.filter((it) => it !== false);
}
