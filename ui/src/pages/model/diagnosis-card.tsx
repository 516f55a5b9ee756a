import type { Model, Schema } from "@/api/types";
import { useDiagnosed } from "@/i18n/gateway";
import { Panel } from "@/kit/panel";
import { Failure } from "@/parts/models/failure";
import { Prose } from "@/parts/models/prose";
import { useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

type DiagnosisCardProps = {
  model: Model;
  diagnosis: Schema<"Diagnosis">;
  onJump: (quote: string) => void;
  has: (quote: string) => boolean;
};

/** Why the engine failed, or what is wrong while it runs; each quoted line leads to its place in the log. */
export function DiagnosisCard({ model, diagnosis, onJump, has }: DiagnosisCardProps) {
  const t = useT();
  const m = useModelT();
  const diagnosed = useDiagnosed();
  const { title, message, evidence } = diagnosed(diagnosis);
  return (
    <Panel title={t.log.diagnosis}>
      <div className="flex flex-col gap-3">
        {model.state === "failed" ? (
          <Failure model={model} here />
        ) : (
          <div className="text-sm">
            <p className="font-medium">{title}</p>
            <p className="max-w-[72ch] text-ink-2">
              <Prose text={message} />
            </p>
          </div>
        )}
        {evidence.length > 0 && (
          <ul aria-label={m.failure.evidence} className="flex flex-col gap-1">
            {evidence.map((it) => (
              <li key={it}>
                <button
                  type="button"
                  disabled={!has(it)}
                  title={has(it) ? m.failure.jump(it) : t.log.notHere}
                  onClick={() => onJump(it)}
                  className="block w-full truncate rounded-sm border-bad-solid border-l-2 bg-hover px-2 py-1 text-left font-mono text-xs enabled:hover:underline"
                >
                  {it}
                </button>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Panel>
  );
}
