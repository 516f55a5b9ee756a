import type { Schema } from "@/api/types";
import type { Settings } from "@/data/model-files";
import { ErrorNote } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { Checks, CommandView } from "@/parts/models/checks";
import { MemoryBars } from "@/parts/models/memory-bar";
import { useT as useModelT } from "@/parts/models/t";
import { Verdict } from "@/parts/models/verdict";

type OutcomeProps = {
  preview: Schema<"DryRun"> | undefined;
  error: unknown;
  /** The command without the changes. */
  before: string[] | null;
  onSet: (set: Settings) => void;
};

/** What a start with these settings would do: memory, checks, command. It stays in sight while a newer answer is on its way. */
export function Outcome({ preview, error, before, onSet }: OutcomeProps) {
  const m = useModelT();
  return (
    <>
      <Panel title={m.memory.title} actions={<Verdict preview={preview} error={error} />}>
        {error !== undefined && error !== null && <ErrorNote error={error} />}
        {preview ? <MemoryBars estimate={preview.vram_estimate} /> : !error && <Skeleton className="h-24" />}
      </Panel>
      {preview && (
        <>
          <Panel title={m.check.warnings}>
            <Checks preview={preview} onSet={onSet} />
          </Panel>
          <Panel title={m.check.command}>
            <CommandView preview={preview} before={before} />
          </Panel>
        </>
      )}
    </>
  );
}
