import type { Answer } from "@/api/types";
import { usePackageContents } from "@/data/deployment";
import { useFormat } from "@/i18n";
import { ErrorNote } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { useRested } from "@/kit/rested";
import { Skeleton } from "@/kit/skeleton";
import { RelativeTime } from "@/kit/text";
import { useT } from "./t";

/** What is in a package besides its models: images, dump, program, signature. */
export function PackageFacts({ dir }: { dir: string }) {
  const t = useT().inPackage;
  const contents = usePackageContents(useRested(dir));
  if (!dir) return null;
  return (
    <Panel title={t.title}>
      {contents.error && !contents.data ? (
        <ErrorNote error={contents.error} />
      ) : contents.data ? (
        <Found found={contents.data} />
      ) : (
        <Skeleton className="h-32" />
      )}
    </Panel>
  );
}

function Found({ found }: { found: Answer<"getPackageContents"> }) {
  const t = useT().inPackage;
  const format = useFormat();
  const { database, gateway } = found;
  const size = (bytes: number) => (bytes > 0 ? format.bytes(bytes) : t.none);
  const signature = found.signature_problem ?? (found.key_id ? t.signedBy(found.key_id) : t.notSigned);
  return (
    <div className="flex flex-col gap-4">
      <Facts
        facts={[
          [t.created, <RelativeTime key="created" at={found.created_at} />],
          [t.by, `Gantry ${found.gateway_version}`],
          [t.size, t.sizeOf(format.bytes(found.size_bytes), format.integer(found.files))],
          ...(found.base ? [[t.base, found.base] as [string, string]] : []),
          [
            t.database,
            database
              ? t.dump(database.kind, format.bytes(database.size_bytes), format.integer(database.rows))
              : t.none,
          ],
          [t.weights, size(found.weights_bytes)],
          [t.cache, size(found.hub_cache_bytes)],
          [t.program, gateway ? `${gateway.version}, ${gateway.platform}` : t.none],
          [t.signature, signature],
        ]}
      />
      <Lines
        label={t.images}
        none={t.noImages}
        lines={found.images.map((it) => [it.reference, `${it.architecture}, ${format.bytes(it.size_bytes)}`])}
      />
      {found.programs.length > 0 && (
        <Lines label={t.programs} lines={found.programs.map((it) => [it.command, it.version ?? it.engine])} />
      )}
    </div>
  );
}

function Lines({ label, none, lines }: { label: string; none?: string; lines: [string, string][] }) {
  return (
    <div>
      <h3 className="mb-1 font-medium text-sm">{label}</h3>
      {lines.length === 0 ? (
        <p className="text-ink-3 text-sm">{none}</p>
      ) : (
        <ul aria-label={label} className="flex flex-col gap-1 text-sm">
          {lines.map(([name, note]) => (
            <li key={name} className="flex flex-wrap justify-between gap-x-3">
              <code className="min-w-0 break-all font-mono">{name}</code>
              <span className="text-ink-2">{note}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
