import { useModels } from "@/data/models";
import { useFormat } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { CopyButton } from "@/kit/copy";
import { Link } from "@/kit/link";
import { type Column, Table } from "@/kit/table";
import { Middle, RelativeTime } from "@/kit/text";
import { engineName, useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

export type ShownImage = {
  engine?: string;
  image: string;
  cached: boolean;
  size_mb: number | null;
  created: string | null;
  models: number[];
};

/** Models that are named in a row; a list of hundreds would push the rest away. */
const NAMED = 3;

/** Images (or programs in their place) with what uses them. */
export function ImageTable({
  label,
  images,
  process,
}: {
  label: string;
  images: ShownImage[];
  process: boolean;
}) {
  const t = useT();
  const m = useModelT();
  const format = useFormat();
  const columns: Column<ShownImage>[] = [
    {
      id: "image",
      head: process ? t.columns.program : t.columns.image,
      cell: (it) => (
        <span className="flex min-w-0 max-w-40 items-center gap-1 md:max-w-md">
          <Middle text={it.image} end={12} className="font-mono text-xs" />
          <CopyButton text={it.image} />
        </span>
      ),
    },
    {
      id: "state",
      head: t.columns.state,
      cell: (it) => (
        <StateBadge state={it.cached ? "ok" : "warning"}>{it.cached ? t.cached : t.absent}</StateBadge>
      ),
    },
    {
      id: "size",
      head: t.columns.size,
      numeric: true,
      wide: true,
      cell: (it) => (it.size_mb === null ? "–" : format.mebibytes(it.size_mb)),
    },
    {
      id: "created",
      head: t.columns.created,
      wide: true,
      cell: (it) => (it.created ? <RelativeTime at={it.created} /> : "–"),
    },
    { id: "used", head: t.columns.usedBy, cell: (it) => <UsedBy ids={it.models} /> },
  ];
  if (images.some((it) => it.engine))
    columns.unshift({ id: "engine", head: t.columns.engine, cell: (it) => engineName(it.engine, m) });
  return (
    <Table
      label={label}
      columns={columns}
      list={{ data: images, error: null }}
      rowKey={(it) => `${it.engine} ${it.image}`}
    />
  );
}

function UsedBy({ ids }: { ids: number[] }) {
  const t = useT();
  const format = useFormat();
  const { data: models = [] } = useModels();
  if (ids.length === 0) return <span className="text-ink-3">{t.usedByNone}</span>;
  return (
    <span className="flex min-w-40 flex-wrap gap-x-2">
      {ids.slice(0, NAMED).map((id) => (
        <Link
          key={id}
          to="/models/$id"
          params={{ id: String(id) }}
          className="inline-block h-6 max-w-48 truncate leading-6"
        >
          <bdi>{models.find((it) => it.id === id)?.served_name ?? `#${id}`}</bdi>
        </Link>
      ))}
      {ids.length > NAMED && (
        <span className="text-ink-3">{t.usedByMore(format.integer(ids.length - NAMED))}</span>
      )}
    </span>
  );
}
