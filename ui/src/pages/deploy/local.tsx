import { useInspection } from "@/data/model-files";
import { Button } from "@/kit/button";
import { ErrorState } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { DeployForm } from "./form";
import { InspectionPanel } from "./inspection";
import { useT } from "./t";

/** A folder or a file that was chosen: what it is, and the form that serves it. */
export function Local({ path }: { path: string }) {
  const t = useT();
  const change = useSetUrl();
  const { file: wanted } = useUrl();
  const folder = useInspection(path);
  const best = folder.data?.engine_recommendation;
  const file = wanted ?? best?.path ?? null;
  // The gateway says for each file by itself how it is best served.
  const other = useInspection(file !== null && file !== best?.path ? file : null);
  const again = () => change({ pick: undefined, file: undefined }, { push: true });
  if (folder.error)
    return (
      <Panel
        title={path === "." ? t.itself : t.inspection(path)}
        actions={<Button onClick={again}>{t.again}</Button>}
      >
        <ErrorState error={folder.error} onRetry={folder.refetch} />
      </Panel>
    );
  if (!folder.data) return <Skeleton className="h-64" />;
  const settings = file === best?.path ? best?.settings : other.data?.engine_recommendation.settings;
  const group = folder.data.gguf_groups.find((it) => it.path === file);
  const longest = group?.metadata?.context_length ?? folder.data.safetensor_info?.context_length ?? null;
  return (
    <>
      <InspectionPanel
        found={folder.data}
        file={file}
        onFile={(to) => change({ file: to === best?.path ? undefined : to })}
        onAgain={again}
      />
      {other.error && <ErrorState error={other.error} onRetry={other.refetch} />}
      {settings ? (
        <DeployForm
          key={file}
          given={settings}
          longest={longest}
          beside={{ encoders: folder.data.mmproj_files, adapters: folder.data.adapter_files }}
        />
      ) : (
        file !== null && !other.error && other.isFetching && <Skeleton className="h-64" />
      )}
    </>
  );
}
