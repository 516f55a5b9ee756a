import type { Model } from "@/api/types";
import { useReadiness } from "@/data/model-detail";
import { useModelFields, useSavedPreview } from "@/data/model-files";
import { useT as useCommonT } from "@/i18n";
import { StateBadge } from "@/kit/badge";
import { CodeBlock } from "@/kit/code-block";
import { CopyButton } from "@/kit/copy";
import { Facts } from "@/kit/facts";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { RelativeTime } from "@/kit/text";
import { Checks, CommandView } from "@/parts/models/checks";
import { MemoryBars } from "@/parts/models/memory-bar";
import { Prose } from "@/parts/models/prose";
import { settingsOf, shown } from "@/parts/models/settings";
import { snippetsOf } from "@/parts/models/snippets";
import { useT as useModelT } from "@/parts/models/t";
import { Verdict } from "@/parts/models/verdict";
import { Notices } from "./notices";
import { useT } from "./t";

/** What a model is, how ready it is, what it needs, and how clients reach it. */
export function Overview({ model }: { model: Model }) {
  const m = useModelT();
  const { data, error } = useSavedPreview(model.id, `${model.updated_at} ${model.state}`);
  return (
    <div className="flex flex-col gap-4">
      <Notices model={model} />
      <div className="grid items-start gap-4 xl:grid-cols-2">
        <div className="flex min-w-0 flex-col gap-4">
          <Access model={model} />
          <About model={model} />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title={m.memory.title} actions={<Verdict preview={data} error={error} />}>
            {data ? <MemoryBars preview={data} own={model.served_name} /> : <Skeleton className="h-24" />}
          </Panel>
          {data && (
            <Panel title={m.check.title}>
              <div className="flex flex-col gap-4">
                <Checks preview={data} />
                <CommandView preview={data} before={null} />
              </div>
            </Panel>
          )}
        </div>
      </div>
    </div>
  );
}

function Access({ model }: { model: Model }) {
  const t = useT();
  const m = useModelT();
  const base = `${location.origin}/v1`;
  return (
    <Panel title={t.access}>
      <div className="flex flex-col gap-3">
        {model.state !== "running" && <p className="text-ink-2 text-sm">{t.notRunning}</p>}
        <Facts
          facts={[
            [t.baseUrl, <Copied key="url" what={t.baseUrl} text={base} />],
            [t.modelName, <Copied key="name" what={t.modelName} text={model.served_name} />],
          ]}
        />
        <CodeBlock
          label={t.snippet}
          snippets={snippetsOf(
            { origin: location.origin, model: model.served_name, task: model.task },
            m.openWebUi,
          )}
        />
        <p className="text-ink-2 text-sm">
          {t.keyNote}{" "}
          <Link to="/keys" search={{ dialog: "create" }} className="underline">
            {t.makeKey}
          </Link>
        </p>
      </div>
    </Panel>
  );
}

function Copied({ what, text }: { what: string; text: string }) {
  const c = useCommonT();
  return (
    <span className="flex min-w-0 items-center gap-1">
      <code className="min-w-0 break-all font-mono text-xs">{text}</code>
      <CopyButton text={text} label={c.do.copyCode(what)} />
    </span>
  );
}

function About({ model }: { model: Model }) {
  const t = useT();
  const m = useModelT();
  const readiness = useReadiness(model.id, model.state);
  const { data: fields = [] } = useModelFields();
  const set = Object.entries(settingsOf(model, fields)).filter(
    ([name]) => !["local_path", "repo_id", "mode", "autostart", "restart_policy"].includes(name),
  );
  return (
    <Panel title={t.facts}>
      <Facts
        facts={[
          [t.name, model.name],
          [
            t.fact.state,
            <span key="state" className="flex flex-wrap items-center gap-2">
              <StateBadge state={model.state} />
              {/* Why it failed stands above. */}
              {readiness.data && model.state !== "failed" && (
                <Prose text={readiness.data.detail} className="text-ink-2" />
              )}
            </span>,
          ],
          [t.fact.engine, `${m.engine[model.engine_type]}${model.simulator ? ` · ${m.simulator}` : ""}`],
          [t.fact.task, m.task[model.task]],
          [
            t.fact.source,
            <code key="source" className="break-all font-mono text-xs">
              {model.local_path ?? model.repo_id}
            </code>,
          ],
          [t.fact.autostart, model.autostart ? t.fact.on : t.fact.off],
          [t.fact.restarts, t.fact.policy[model.restart_policy ?? "never"]],
          [t.fact.token, model.hub_token_set ? t.fact.tokenSet : t.fact.tokenUnset],
          ...set.map(([name, value]): [React.ReactNode, string] => [
            <code key={name} className="break-all font-mono text-xs">
              {name}
            </code>,
            shown(value),
          ]),
          [t.fact.created, <RelativeTime key="created" at={model.created_at} />],
          [t.fact.changed, <RelativeTime key="changed" at={model.updated_at} />],
        ]}
      />
    </Panel>
  );
}
