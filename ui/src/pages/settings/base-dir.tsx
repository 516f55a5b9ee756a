import { useState } from "react";
import type { Answer } from "@/api/types";
import { useMay } from "@/data/session";
import { useModelsBaseDir } from "@/data/settings";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { CopyButton } from "@/kit/copy";
import { ErrorState } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { BaseDirDialog } from "./base-dir-dialog";
import { useT } from "./t";

/** Where model files are, and for owners the way to change it. */
export function BaseDir() {
  const t = useT().baseDir;
  const may = useMay();
  const dir = useModelsBaseDir();
  const [open, setOpen] = useState(false);
  return (
    <Panel
      title={t.title}
      actions={
        dir.data &&
        may("changeModelsBaseDir") && (
          <Button size="sm" onClick={() => setOpen(true)}>
            {t.change}
          </Button>
        )
      }
    >
      {dir.data ? (
        <Shown dir={dir.data} />
      ) : dir.error ? (
        <ErrorState error={dir.error} onRetry={dir.refetch} />
      ) : (
        <Skeleton className="h-20" />
      )}
      {open && dir.data && <BaseDirDialog dir={dir.data} onClose={() => setOpen(false)} />}
    </Panel>
  );
}

function Shown({ dir }: { dir: Answer<"getModelsBaseDir"> }) {
  const t = useT().baseDir;
  const format = useFormat();
  const { free_bytes: free, total_bytes: total } = dir;
  return (
    <Facts
      facts={[
        [
          t.current,
          <span key="path" className="inline-flex max-w-full items-center gap-1">
            <code className="min-w-0 break-all font-mono text-xs">{dir.base_dir}</code>
            <CopyButton text={dir.base_dir} />
          </span>,
        ],
        [t.free, free === null || total === null ? "–" : t.ofTotal(format.bytes(free), format.bytes(total))],
        [
          t.source,
          dir.source === "database" ? t.sources.database(dir.settings_base_dir) : t.sources.settings,
        ],
      ]}
    />
  );
}
