import { ArrowDown } from "lucide-react";
import { type RefObject, useRef } from "react";
import { useChat } from "@/data/chats";
import { Button } from "@/kit/button";
import { ErrorState } from "@/kit/error-state";
import { Skeleton } from "@/kit/skeleton";
import { useT } from "../t";
import type { Parameters } from "./parameters";
import { useStick } from "./stick";
import { TroubleView } from "./trouble";
import { TurnView } from "./turn";
import { useConversation } from "./use-conversation";

type PaneProps = {
  session: string;
  model: string;
  parameters: Parameters;
  editing: number | null;
  onEditing: (id: number | null) => void;
  /** The box that scrolls, for panes that scroll together. */
  box: RefObject<HTMLDivElement | null>;
  onScroll?: () => void;
};

/** One conversation: its messages, and the answer that arrives. */
export function Pane(props: PaneProps) {
  const chat = useChat(props.session);
  if (chat.data) return <Conversation {...props} />;
  if (chat.error) return <ErrorState error={chat.error} onRetry={chat.refetch} />;
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-1 flex-col gap-6 p-4 md:p-6">
      <Skeleton className="h-12" />
      <Skeleton className="h-32" />
    </div>
  );
}

function Conversation({ session, model, parameters, editing, onEditing, box, onScroll }: PaneProps) {
  const t = useT();
  const content = useRef<HTMLDivElement>(null);
  const { stuck, toEnd } = useStick(box, content);
  const { turns, arriving, idle, commands, trouble } = useConversation({
    session,
    model,
    parameters,
    onEditing,
  });
  return (
    <div className="relative flex min-h-0 flex-1 flex-col">
      <div
        ref={box}
        onScroll={onScroll}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t.pane.label}
        className="min-h-0 flex-1 overflow-y-auto overscroll-contain -outline-offset-2 [overflow-anchor:auto]"
      >
        <div ref={content} className="mx-auto flex max-w-3xl flex-col gap-6 p-4 md:p-6">
          {turns.map((turn, at) => (
            <TurnView
              key={turn.id}
              session={session}
              turn={turn}
              last={at === turns.length - 1}
              arriving={at === turns.length - 1 ? arriving : undefined}
              commands={commands}
              idle={idle}
              editing={editing === turn.id}
            />
          ))}
          {trouble && <TroubleView trouble={trouble} />}
        </div>
      </div>
      {!stuck && (
        <div className="pointer-events-none absolute inset-x-0 bottom-2 flex justify-center">
          <Button size="sm" icon={ArrowDown} onClick={toEnd} className="pointer-events-auto shadow-float">
            {t.pane.toEnd}
          </Button>
        </div>
      )}
      <span aria-live="polite" className="sr-only">
        {arriving ? t.pane.writing(model) : ""}
      </span>
    </div>
  );
}
