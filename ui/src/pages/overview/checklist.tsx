import { Check } from "lucide-react";
import type { ReactNode } from "react";
import type { Model } from "@/api/types";
import { baseUrl } from "@/app/commands";
import { useKeys, useOwnKeys } from "@/data/keys";
import { useMay } from "@/data/session";
import { useOwnUsageRows, useUsageRows } from "@/data/usage";
import { cn } from "@/kit/cn";
import { Command } from "@/kit/code-block";
import { ButtonLink } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { useT } from "./t";

const POLL = { refetchInterval: 3000 };
const MONTH = 720;

/** What is between a new gateway and its first answer. It ticks itself, and is gone when all is done. */
export function Checklist({ models }: { models: Model[] | undefined }) {
  const t = useT();
  const may = useMay();
  const all = may("listUsage") && may("listKeys");
  const keys = useKeys({ limit: 1 }, { enabled: all });
  const ownKeys = useOwnKeys({ limit: 1 }, { enabled: !all });
  const rows = useUsageRows({ limit: 1, hours: MONTH }, { enabled: all, ...POLL });
  const ownRows = useOwnUsageRows({ limit: 1, hours: MONTH }, { enabled: !all, ...POLL });
  const [keyCount, requests] = all
    ? [keys.data?.total, rows.data?.total]
    : [ownKeys.data?.total, ownRows.data?.total];
  if (keyCount === undefined || requests === undefined || (may("listModels") && !models)) return null;
  const running = models?.find((it) => it.state === "running");
  const done = {
    model: models === undefined || running !== undefined || requests > 0,
    key: keyCount > 0,
    request: requests > 0,
  };
  if (done.key && done.request) return null;
  const name = running?.served_name ?? "MODEL";
  const curl = `curl ${baseUrl()}/chat/completions -H "Authorization: Bearer YOUR_KEY" -H "Content-Type: application/json" -d '${JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello" }] })}'`;
  const next = !done.model ? "model" : !done.key ? "key" : "request";
  return (
    <Panel title={t.checklist.title}>
      <ol className="flex flex-col gap-5" aria-live="polite">
        {may("createModel") && (
          <Step done={done.model} title={t.checklist.model} text={t.checklist.modelText} n={1}>
            <ButtonLink to="/models/new" look={next === "model" ? "primary" : "plain"}>
              {t.checklist.modelAction}
            </ButtonLink>
          </Step>
        )}
        <Step
          done={done.key}
          title={t.checklist.key}
          text={t.checklist.keyText}
          n={may("createModel") ? 2 : 1}
        >
          <ButtonLink to="/keys" search={{ dialog: "create" }} look={next === "key" ? "primary" : "plain"}>
            {t.checklist.keyAction}
          </ButtonLink>
        </Step>
        <Step
          done={done.request}
          title={t.checklist.request}
          text={t.checklist.requestText}
          n={may("createModel") ? 3 : 2}
        >
          <Command code={curl} />
        </Step>
      </ol>
    </Panel>
  );
}

function Step({
  done,
  title,
  text,
  n,
  children,
}: {
  done: boolean;
  title: string;
  text: string;
  n: number;
  children: ReactNode;
}) {
  const t = useT();
  return (
    <li className="flex gap-3">
      <span
        className={cn(
          "grid size-6 shrink-0 place-items-center rounded-full border text-xs",
          done ? "border-ok-solid bg-ok-soft text-ok" : "border-line-strong text-ink-2",
        )}
      >
        {done ? <Check aria-hidden className="size-3.5" /> : <span aria-hidden>{n}</span>}
      </span>
      <div className="flex min-w-0 flex-1 flex-col items-start gap-2">
        <div>
          <p className={cn("font-medium", done && "text-ink-2")}>
            {title}
            <span className="sr-only">: {done ? t.checklist.done : t.checklist.open}</span>
          </p>
          {!done && <p className="max-w-[72ch] text-ink-2 text-sm">{text}</p>}
        </div>
        {!done && <div className="w-full min-w-0">{children}</div>}
      </div>
    </li>
  );
}
