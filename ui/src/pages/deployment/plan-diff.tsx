import { CircleEqual, CirclePlus, CircleX, Info, type LucideIcon, TriangleAlert } from "lucide-react";
import { useFormat } from "@/i18n";
import { cn } from "@/kit/cn";
import { type Line, type Mark, planLines } from "./plan";
import { useT } from "./t";

const LOOKS: Record<Mark, { icon: LucideIcon; text: string; row: string }> = {
  new: { icon: CirclePlus, text: "text-ok", row: "bg-ok-soft" },
  same: { icon: CircleEqual, text: "text-ink-3", row: "" },
  conflict: { icon: CircleX, text: "text-bad", row: "bg-bad-soft" },
  missing: { icon: TriangleAlert, text: "text-warn", row: "bg-warn-soft" },
  warn: { icon: Info, text: "text-busy", row: "" },
};

/** What an import would do, line by line: new, there already, in conflict, missing. */
export function PlanDiff(given: Parameters<typeof planLines>[0]) {
  const t = useT().diff;
  const format = useFormat();
  const lines = planLines(given, t, format);
  return (
    <ul aria-label={t.title} className="overflow-hidden rounded-md border border-line text-sm">
      {lines.map((it) => (
        <DiffLine key={`${it.mark} ${it.kind} ${it.what}`} line={it} />
      ))}
    </ul>
  );
}

function DiffLine({ line }: { line: Line }) {
  const t = useT().diff;
  const { icon: Icon, text, row } = LOOKS[line.mark];
  return (
    <li className={cn("flex items-start gap-2.5 border-line border-b px-3 py-1.5 last:border-b-0", row)}>
      <Icon aria-hidden className={cn("mt-0.5 size-4 shrink-0", text)} />
      <span className="w-28 shrink-0 font-medium">{t.mark[line.mark]}</span>
      <span className="min-w-0 flex-1">
        <span className="text-ink-2">{t.kind[line.kind]}</span>{" "}
        <bdi className="wrap-anywhere font-medium">{line.what}</bdi>
        {line.note && <span className="block text-ink-2">{line.note}</span>}
      </span>
    </li>
  );
}
