import { useState } from "react";
import { type ManifestEntry, useManifests } from "@/data/deployment";
import { useMay } from "@/data/session";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { useRested } from "@/kit/rested";
import { type Column, Table } from "@/kit/table";
import { Middle } from "@/kit/text";
import { engineName, useT as useModelT } from "@/parts/models/t";
import { ImportModel } from "./import-model";
import { useT } from "./t";

/** The models of a package, each with what of it is in the package; an owner can import one alone. */
export function PackageContents({ dir, base, busy }: { dir: string; base: string; busy: boolean }) {
  const t = useT().importing;
  const may = useMay();
  const manifests = useManifests(useRested(dir));
  const [chosen, setChosen] = useState<ManifestEntry | null>(null);
  const columns = useColumns();
  if (!dir) return null;
  return (
    <Panel title={t.contents} flush>
      {manifests.error && !manifests.data ? (
        <div className="p-4">
          <ErrorNote error={manifests.error} />
        </div>
      ) : (
        <Table
          label={t.contents}
          columns={columns}
          list={manifests}
          rowKey={(it) => it.manifest_file}
          empty={<p className="px-4 py-3 text-ink-3 text-sm">{t.contentsNone}</p>}
          actions={
            may("importModel")
              ? (it) => (
                  <Button size="sm" disabled={!it.ok || busy} onClick={() => setChosen(it)}>
                    {t.importOne}
                  </Button>
                )
              : undefined
          }
        />
      )}
      {chosen && <ImportModel entry={chosen} dir={dir} base={base} onClose={() => setChosen(null)} />}
    </Panel>
  );
}

function useColumns(): Column<ManifestEntry>[] {
  const t = useT().importing;
  const m = useModelT();
  const format = useFormat();
  return [
    {
      id: "model",
      head: t.columns.model,
      cell: (it) => (
        <span className="flex min-w-0 max-w-36 flex-col sm:max-w-64">
          <Middle text={it.served_name} className="font-medium" />
          {it.redacted.length > 0 && (
            <span className="whitespace-normal text-ink-2 text-xs">{t.setAgain(it.redacted.join(", "))}</span>
          )}
          {!it.ok && (
            <span className="flex gap-1.5 whitespace-normal text-bad text-xs">
              <StateShape tone="bad" className="mt-0.5" />
              {it.problem}
            </span>
          )}
        </span>
      ),
    },
    { id: "engine", head: t.columns.engine, wide: true, cell: (it) => engineName(it.engine_type, m) },
    {
      id: "image",
      head: t.columns.image,
      wide: true,
      cell: (it) =>
        it.image === null ? (
          t.program
        ) : (
          <span title={it.image}>{it.image_in_package ? t.inPackage : t.notInPackage}</span>
        ),
    },
    {
      id: "weights",
      head: t.columns.weights,
      numeric: true,
      cell: (it) => (it.weights_in_package ? format.bytes(it.weights_bytes) : t.notInPackage),
    },
  ];
}
