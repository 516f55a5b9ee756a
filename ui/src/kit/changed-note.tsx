import { TriangleAlert } from "lucide-react";
import { useT } from "@/i18n";
import { Button } from "./button";

/** What somebody else made of a field, as text. */
export type Theirs = { label: string; value: string };

/** Says that a record changed elsewhere while it is edited here, shows their values, and can take them. */
export function ChangedNote({ theirs, onTake }: { theirs: Theirs[]; onTake: () => void }) {
  const t = useT();
  if (theirs.length === 0) return null;
  return (
    <div
      role="alert"
      className="flex gap-2 rounded-md border border-warn-solid bg-warn-soft px-3 py-2 text-sm"
    >
      <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
      <div className="flex min-w-0 flex-col gap-1.5">
        <p>{t.changed.text}</p>
        <dl className="grid grid-cols-[auto_1fr] gap-x-4">
          {theirs.map((it) => (
            <div key={it.label} className="contents">
              <dt className="text-ink-2">{it.label}</dt>
              <dd className="min-w-0 break-words">{it.value}</dd>
            </div>
          ))}
        </dl>
        <Button size="sm" className="self-start" onClick={onTake}>
          {t.changed.take}
        </Button>
      </div>
    </div>
  );
}
