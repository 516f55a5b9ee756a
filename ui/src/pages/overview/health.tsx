import type { Model, Upstream } from "@/api/types";
import { useFormat } from "@/i18n";
import { StateShape, type Tone } from "@/kit/badge";
import { cn } from "@/kit/cn";
import { Skeleton } from "@/kit/skeleton";
import { useT } from "./t";

const TEXT: Record<Tone, string> = {
  ok: "text-ok",
  busy: "text-busy",
  warn: "text-warn",
  bad: "text-bad",
  idle: "text-ink-3",
};

/** Says in one sentence how the models are. */
export function Health({ models, upstreams = [] }: { models: Model[] | undefined; upstreams?: Upstream[] }) {
  const t = useT();
  const format = useFormat();
  if (!models) return <Skeleton className="h-7 w-80" />;
  const count = (...states: Model["state"][]) => models.filter((it) => states.includes(it.state)).length;
  const serving = count("running");
  const starting = count("starting", "loading");
  const failed = count("failed");
  const registry = upstreams.filter((it) => it.source !== "managed" && it.healthy).length;
  // A model that is stopped has an upstream that does not answer: that is no fault.
  const unhealthy = upstreams.filter((it) => it.source === "manual" && !it.healthy).length;
  const parts: string[] = [];
  if (serving > 0) parts.push(t.health.serving(serving, models.length));
  if (registry > 0) parts.push(t.health.routes(registry));
  if (starting > 0) parts.push(t.health.starting(starting));
  if (failed > 0) parts.push(t.health.failed(failed));
  if (unhealthy > 0) parts.push(t.health.upstreams(unhealthy));
  const tone: Tone =
    failed > 0
      ? "bad"
      : unhealthy > 0
        ? "warn"
        : starting > 0
          ? "busy"
          : serving + registry > 0
            ? "ok"
            : "idle";
  const rest = models.length === 0 ? t.health.none : t.health.allStopped(models.length);
  return (
    <p className="flex items-center gap-2.5 font-medium text-lg" aria-live="polite">
      <StateShape tone={tone} className={cn("size-4", TEXT[tone])} />
      {parts.length > 0 ? `${format.list(parts)}.` : rest}
    </p>
  );
}
