import type { Body } from "@/api/types";
import { type Segment, StackedBar } from "@/charts/stacked-bar";
import { type Estimate, useEstimate } from "@/data/deployment";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { ErrorNote } from "@/kit/error-state";
import { useRested } from "@/kit/rested";
import { Skeleton } from "@/kit/skeleton";
import { useT } from "./t";

const COLORS = [1, 2, 3, 4, 5, 6] as const;

type Props = { body: Body<"estimateDeploymentSize">; since: boolean };

/** How large the package would be, by part, and how it fits the disk with the margin that the gateway wants. */
export function ExportSize({ body, since }: Props) {
  const t = useT().exporting;
  const estimate = useEstimate(useRested(body));
  if (!body.output_dir) return <p className="text-ink-3 text-sm">{t.noDir}</p>;
  if (estimate.error) return <ErrorNote error={estimate.error} />;
  if (!estimate.data)
    return (
      <div aria-busy>
        <p className="text-ink-3 text-sm">{t.estimating}</p>
        <Skeleton className="mt-3 h-28" />
      </div>
    );
  return (
    <div className={estimate.isPlaceholderData ? "opacity-60" : undefined}>
      <Bars of={estimate.data} />
      {since && <p className="mt-3 text-ink-3 text-sm">{t.sinceNote}</p>}
    </div>
  );
}

function Bars({ of }: { of: Estimate }) {
  const t = useT().exporting;
  const format = useFormat();
  const names: Record<string, string> = t.parts;
  const { disk_space: disk, estimated_bytes: size } = of;
  const part = (id: string, label: string, value: number, color: Segment["color"]): Segment => ({
    id,
    label,
    value,
    text: format.bytes(value),
    color,
  });
  const parts = Object.entries(of.breakdown_bytes).map(([id, value], index) =>
    part(id, names[id] ?? id, value, COLORS[index % 6] ?? 1),
  );
  const margin = Math.max(0, disk.required_bytes - size);
  const onDisk = [
    part("package", t.package, size, 1),
    part("margin", t.margin(format.decimal(disk.safety_margin, 1)), margin, "other"),
    part("free", t.freeAfter, Math.max(0, disk.available_bytes - disk.required_bytes), "free"),
  ];
  const [needed, free] = [format.bytes(disk.required_bytes), format.bytes(disk.available_bytes)];
  return (
    <div className="flex flex-col gap-5">
      <div>
        <p className="mb-2 font-semibold text-xl">{t.estimateOf(format.bytes(size))}</p>
        <StackedBar label={t.estimate} segments={parts} height={16} />
      </div>
      <div>
        <h3 className="mb-2 font-medium text-sm">{t.disk}</h3>
        <StackedBar label={t.disk} segments={onDisk} total={disk.available_bytes} height={16} />
        <p className="mt-2 flex gap-2 text-sm">
          <StateShape
            tone={disk.sufficient ? "ok" : "bad"}
            className={`mt-1 ${disk.sufficient ? "text-ok" : "text-bad"}`}
          />
          {disk.sufficient ? t.enough(needed, free) : t.notEnough(needed, free)}
        </p>
      </div>
      {of.missing_images.length > 0 && (
        <div className="text-sm">
          <p className="text-ink-2">{t.missingImages}</p>
          <ul className="list-disc pl-4">
            {of.missing_images.map((it) => (
              <li key={it} className="break-all font-mono text-xs leading-5">
                {it}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
