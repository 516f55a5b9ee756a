import { ChevronLeft, ChevronRight, Pencil, RotateCw } from "lucide-react";
import { IconButton } from "@/kit/button";
import { CopyButton } from "@/kit/copy";
import { useT } from "../t";
import type { Question } from "./talk";
import { splitReasoning, type Turn } from "./tree";

/** What can be done with a message. */
export type TurnCommands = {
  startEdit: (id: number | null) => void;
  edit: (turn: Turn, question: Question) => Promise<void>;
  regenerate: (turn: Turn) => void;
  goOn: (turn: Turn) => void;
  show: (id: number) => void;
};

type TurnActionsProps = { turn: Turn; commands: TurnCommands; idle: boolean; onEdit: () => void };

/** The row of buttons below a message. */
export function TurnActions({ turn, commands, idle, onEdit }: TurnActionsProps) {
  const t = useT();
  const own = turn.role === "user";
  return (
    <div className="flex items-center gap-0.5">
      <CopyButton text={own ? turn.content : splitReasoning(turn.content).text} label={t.turn.copy} />
      {own ? (
        <IconButton icon={Pencil} size="sm" label={t.turn.edit} disabled={!idle} onClick={onEdit} />
      ) : (
        <IconButton
          icon={RotateCw}
          size="sm"
          label={t.turn.regenerate}
          disabled={!idle}
          onClick={() => commands.regenerate(turn)}
        />
      )}
      {turn.siblings.length > 1 && <Siblings turn={turn} commands={commands} idle={idle} />}
    </div>
  );
}

function Siblings({ turn, commands, idle }: { turn: Turn; commands: TurnCommands; idle: boolean }) {
  const t = useT();
  const at = turn.siblings.indexOf(turn.id);
  const go = (to: number) => {
    const id = turn.siblings[to];
    if (id !== undefined) commands.show(id);
  };
  return (
    <fieldset className="flex items-center">
      <legend className="sr-only">{t.turn.versions}</legend>
      <IconButton
        icon={ChevronLeft}
        size="sm"
        label={t.turn.previousVersion}
        disabled={!idle || at === 0}
        onClick={() => go(at - 1)}
      />
      <span className="text-ink-2 text-xs tabular-nums">
        {t.turn.versionOf(at + 1, turn.siblings.length)}
      </span>
      <IconButton
        icon={ChevronRight}
        size="sm"
        label={t.turn.nextVersion}
        disabled={!idle || at === turn.siblings.length - 1}
        onClick={() => go(at + 1)}
      />
    </fieldset>
  );
}
