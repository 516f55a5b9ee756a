import { Play, RotateCw } from "lucide-react";
import { Button } from "@/kit/button";
import { RequestId } from "@/kit/error-state";
import { useT } from "../t";
import type { Turn } from "./tree";
import type { TurnCommands } from "./turn-actions";

type TurnTroubleProps = { turn: Turn; last: boolean; idle: boolean; commands: TurnCommands };

/** Says why an answer is not whole, with what can be done about it. */
export function TurnTrouble({ turn, last, idle, commands }: TurnTroubleProps) {
  const t = useT();
  const { ending, error, request_id } = turn.facts;
  if (!last || !ending || !["interrupted", "error", "stopped", "length"].includes(ending)) return null;
  const quiet = ending === "stopped" || ending === "length";
  return (
    <div
      role={quiet ? undefined : "status"}
      className={
        quiet
          ? "flex"
          : "flex flex-col items-start gap-2 rounded-md border border-warn-solid bg-warn-soft px-3 py-2 text-sm"
      }
    >
      {!quiet && (
        <div>
          <p className="font-medium">{ending === "error" ? t.turn.brokeOff : t.turn.interrupted}</p>
          {error && <p className="break-words text-ink-2">{error}</p>}
          {request_id && ending === "error" && <RequestId id={request_id} />}
        </div>
      )}
      <div className="flex flex-wrap gap-2">
        <Button size="sm" icon={Play} disabled={!idle} onClick={() => commands.goOn(turn)}>
          {t.turn.goOn}
        </Button>
        {!quiet && (
          <Button size="sm" icon={RotateCw} disabled={!idle} onClick={() => commands.regenerate(turn)}>
            {t.turn.regenerate}
          </Button>
        )}
      </div>
    </div>
  );
}
