import { useModelFields } from "@/data/model-files";
import { useModel } from "@/data/models";
import { ErrorState } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useLocked } from "@/parts/models/locked";
import { settingsOf } from "@/parts/models/settings";
import { DeployForm } from "./form";
import { useT } from "./t";

/** A new model with the settings of another one. */
export function CopyOf({ id }: { id: number }) {
  const t = useT();
  const model = useModel(id);
  const fields = useModelFields();
  const locked = useLocked();
  const error = model.error ?? fields.error;
  if (error) return <ErrorState error={error} />;
  if (!model.data || !fields.data || model.isPlaceholderData) return <Skeleton className="h-64" />;
  const { engine_type, task, served_name, hub_token_set } = model.data;
  const settings = Object.entries(settingsOf(model.data, fields.data));
  // What the signed-in user may not set would make the whole copy be refused.
  const left = settings.filter(([name]) => locked(name)).map(([name]) => name);
  return (
    <>
      <Panel title={t.copyOf(served_name)}>
        <p className="text-ink-2 text-sm">
          {model.data.local_path ?? model.data.repo_id} {hub_token_set && t.copyNote}
        </p>
        {left.length > 0 && <p className="text-sm text-warn">{t.copyWithout(left.join(", "))}</p>}
      </Panel>
      <DeployForm
        given={{ ...Object.fromEntries(settings.filter(([name]) => !locked(name))), engine_type, task }}
        served={`${served_name}-copy`}
        longest={null}
      />
    </>
  );
}
