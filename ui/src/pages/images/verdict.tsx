import { CircleCheck, TriangleAlert } from "lucide-react";
import type { Answer } from "@/api/types";
import { useFormat } from "@/i18n";
import { cn } from "@/kit/cn";
import { Command } from "@/kit/code-block";
import { Panel } from "@/kit/panel";
import { Prose } from "@/parts/models/prose";
import { useT } from "./t";

type Props = {
  images: Answer<"getContainerImages">;
  missing: string[];
  process: boolean;
  mayLoad: boolean;
};

/** One sentence that says whether the machine could work without a network, and what to do if not. */
export function Verdict({ images, missing, process, mayLoad }: Props) {
  const t = useT();
  const format = useFormat();
  const ready = images.offline_ready;
  const Icon = ready ? CircleCheck : TriangleAlert;
  const text = ready
    ? process
      ? t.ready
      : t.readyOffline
    : missing.length === 1
      ? t.notReadyOne(missing[0] ?? "")
      : missing.length === 0
        ? t.nothing
        : t.notReady(format.integer(missing.length));
  return (
    <Panel>
      <div className="flex gap-3">
        <Icon aria-hidden className={cn("mt-0.5 size-5 shrink-0", ready ? "text-ok" : "text-warn")} />
        <div className="min-w-0 flex-1">
          <p className="font-semibold text-base">{text}</p>
          <p className="text-ink-2 text-sm">
            {process ? t.process : images.offline_mode ? t.offlineMode : t.onlineMode}
          </p>
          {missing.length > 0 && !process && <HowToGet missing={missing} mayLoad={mayLoad} />}
          {images.recommendations.length > 0 && (
            <div className="mt-3">
              <h2 className="text-ink-2 text-sm">{t.recommendations}</h2>
              <ul className="mt-1 flex list-disc flex-col gap-0.5 pl-4 text-sm">
                {images.recommendations.map((it) => (
                  <li key={it} className="max-w-[90ch] break-words">
                    <Prose text={it} />
                  </li>
                ))}
              </ul>
            </div>
          )}
        </div>
      </div>
    </Panel>
  );
}

function HowToGet({ missing, mayLoad }: { missing: string[]; mayLoad: boolean }) {
  const t = useT();
  return (
    <div className="mt-3 flex max-w-3xl flex-col gap-2 text-sm">
      <div>
        <h2 className="text-ink-2">{t.missing}</h2>
        <ul className="list-disc pl-4">
          {missing.map((it) => (
            <li key={it}>
              <code className="break-all font-mono text-xs">{it}</code>
            </li>
          ))}
        </ul>
      </div>
      <p className="text-ink-2">{t.onNetwork}</p>
      {missing.map((it) => (
        <Command key={it} code={`docker pull ${it}`} />
      ))}
      <p className="mt-1 text-ink-2">{t.withoutNetwork}</p>
      <Command code={`docker save -o images.tar ${missing.join(" ")}`} />
      <p className="text-ink-2">{t.thenLoad}</p>
      <Command code={mayLoad ? "gantry images load images.tar" : "docker load -i images.tar"} />
    </div>
  );
}
