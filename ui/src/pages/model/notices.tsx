import type { ReactNode } from "react";
import type { Model } from "@/api/types";
import { useDiagnosed } from "@/i18n/gateway";
import { StateShape, type Tone } from "@/kit/badge";
import { Failure } from "@/parts/models/failure";
import { Prose } from "@/parts/models/prose";
import { shown } from "@/parts/models/settings";
import { StartProgress } from "@/parts/models/start-progress";
import { useT } from "./t";

const LOOK: Record<"bad" | "warn" | "busy" | "idle", string> = {
  bad: "border-bad-solid",
  warn: "border-warn-solid",
  busy: "border-busy-solid",
  idle: "border-line",
};

function Notice({ tone, children }: { tone: keyof typeof LOOK; children: ReactNode }) {
  return <section className={`rounded-lg border bg-panel p-4 ${LOOK[tone]}`}>{children}</section>;
}

/** What somebody who opens a model must know first: that it starts, failed, was rolled back, or waits to be applied. */
export function Notices({ model }: { model: Model }) {
  const t = useT();
  const diagnosed = useDiagnosed();
  const { state, rolled_back: back } = model;
  return (
    <>
      {(state === "starting" || state === "loading") && (
        <Notice tone="busy">
          <StartProgress model={model} />
        </Notice>
      )}
      {state === "failed" && (
        <Notice tone="bad">
          <Failure model={model} />
        </Notice>
      )}
      {back && (
        <Notice tone="warn">
          <Said tone="warn" title={t.rolledBack}>
            {t.rolledBackText}{" "}
            <code className="break-all font-mono text-xs">
              {Object.entries(back.settings)
                .map(([name, value]) => `${name}=${shown(value)}`)
                .join(" ")}
            </code>
            {back.reason && (
              <p>
                <Prose text={back.diagnosis ? diagnosed(back.diagnosis).message : back.reason} />
              </p>
            )}
          </Said>
        </Notice>
      )}
      {model.needs_apply && (
        <Notice tone="warn">
          <Said tone="warn" title={t.needsApply}>
            {model.needs_apply_reason && <Prose text={model.needs_apply_reason} />}
          </Said>
        </Notice>
      )}
      {model.archived && (
        <Notice tone="idle">
          <Said tone="idle" title={t.archived} />
        </Notice>
      )}
    </>
  );
}

function Said({ tone, title, children }: { tone: Tone; title: string; children?: ReactNode }) {
  return (
    <div className="flex items-start gap-2 text-sm">
      <StateShape tone={tone} className={`mt-1 ${tone === "warn" ? "text-warn" : "text-ink-3"}`} />
      <div className="min-w-0">
        <p className="font-medium">{title}</p>
        {children && <div className="max-w-[72ch] break-words text-ink-2">{children}</div>}
      </div>
    </div>
  );
}
