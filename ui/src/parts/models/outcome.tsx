import type { Schema } from "@/api/types";
import type { Settings } from "@/data/model-files";
import { ErrorNote } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { Checks, CommandView } from "./checks";
import { MemoryBars } from "./memory-bar";
import { useT } from "./t";
import { Verdict } from "./verdict";

type OutcomeProps = {
  preview: Schema<"DryRun"> | undefined;
  error: unknown;
  /** The command without the changes. */
  before: string[] | null;
  /** The model that it is about, if it is one that may hold memory already. */
  own?: string;
  onSet?: (set: Settings) => void;
};

/** What a start with these settings would do: memory, checks, command. It stays in sight while a newer answer is on its way. */
export function Outcome({ preview, error, before, own, onSet }: OutcomeProps) {
  const t = useT();
  return (
    <>
      <Panel title={t.memory.title} actions={<Verdict preview={preview} error={error} />}>
        {error !== undefined && error !== null && <ErrorNote error={error} />}
        {preview ? <MemoryBars preview={preview} own={own} /> : !error && <Skeleton className="h-24" />}
      </Panel>
      {preview && (
        <>
          <Panel title={t.check.warnings}>
            <Checks preview={preview} onSet={onSet} />
          </Panel>
          <Panel title={t.check.command}>
            <CommandView preview={preview} before={before} />
          </Panel>
        </>
      )}
    </>
  );
}
