import { ApiError } from "@/api/errors";
import { useHubConfig } from "@/data/model-files";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { ErrorNote } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { Prose } from "@/parts/models/prose";
import { useT as useModelT } from "@/parts/models/t";
import { DeployForm } from "./form";
import { HubFiles } from "./hub-files";
import { chosenOf, modelsOf, settingsOfRepository } from "./hub-models";
import { useT } from "./t";

/** Whether the hub was asked and answered: that it has no such repository, or whom it shows it to. */
const isRefusal = (error: unknown) =>
  error instanceof ApiError && ["not_found", "hub_access_denied"].includes(error.code ?? "");

/** A repository of the hub: what it is, as far as the hub says, and the form that serves it. */
export function Hub({ repo }: { repo: string }) {
  const t = useT();
  const m = useModelT();
  const format = useFormat();
  const change = useSetUrl();
  const { data, error, isPending } = useHubConfig(repo);
  const again = (
    <Button size="sm" onClick={() => change({ repo: undefined, file: undefined }, { push: true })}>
      {t.again}
    </Button>
  );
  const best = data?.engine_recommendation;
  const { file } = useUrl();
  const models = (data && modelsOf(data)) ?? [];
  const chosen = chosenOf(models, file, best?.recommended_engine ?? "vllm");
  const summary = data?.summary;
  const number = (value: number | null | undefined) => (value == null ? "–" : format.integer(value));
  return (
    <>
      <Panel title={t.inspection(repo)} actions={again}>
        {isPending && <Skeleton className="h-24" />}
        {error && (
          <div className="flex flex-col gap-2">
            <ErrorNote error={error} />
            {!isRefusal(error) && <p className="max-w-[72ch] text-ink-2 text-sm">{t.hubOffline}</p>}
          </div>
        )}
        {best && summary && (
          <div className="flex flex-col gap-4">
            <p className="text-sm">
              <span className="font-medium">{m.engine[best.recommended_engine]}.</span>{" "}
              <Prose text={best.reason} />
            </p>
            <Facts
              facts={[
                [t.fact.architecture, summary.architecture ?? "–"],
                [t.fact.context, number(summary.context_length)],
                [t.fact.layers, number(summary.num_layers)],
                [t.fact.quantization, summary.quantization ?? "–"],
                ...(models.length === 0 ? [[t.files, t.hubUnlisted] as [string, string]] : []),
              ]}
            />
            {models.length > 0 && (
              <HubFiles models={models} chosen={chosen} onChoose={(id) => change({ file: id })} />
            )}
          </div>
        )}
      </Panel>
      {!isPending && (
        <DeployForm
          key={`${repo} ${chosen?.id}`}
          given={chosen?.settings ?? settingsOfRepository(repo, data)}
          longest={summary?.context_length ?? null}
          unread={data === undefined}
        />
      )}
    </>
  );
}
