import { memo, useState } from "react";
import { Boundary } from "@/kit/boundary";
import { cn } from "@/kit/cn";
import { Markdown } from "../markdown/markdown";
import { useT } from "../t";
import { EditTurn } from "./edit-turn";
import { Near } from "./near";
import { SentPictures } from "./pictures";
import { Reasoning } from "./reasoning";
import { Stats } from "./stats";
import { ToolCalls } from "./tool-calls";
import { splitReasoning, type ToolCall, type Turn } from "./tree";
import { TurnActions, type TurnCommands } from "./turn-actions";
import { TurnTrouble } from "./turn-trouble";

/** Beyond this a question is cut, with a button that shows the rest. */
const LONG_QUESTION = 6000;

/** Buttons of messages further up show when they are wanted; without a pointer that hovers, always. */
const QUIET =
  "opacity-0 group-focus-within/turn:opacity-100 group-hover/turn:opacity-100 [@media(hover:none)]:opacity-100";

/** What arrives just now, behind what the turn has already. */
export type Arriving = {
  reasoning: string;
  text: string;
  tools: ToolCall[];
  thinkingSince: number | null;
};

type TurnProps = {
  session: string;
  turn: Turn;
  last: boolean;
  arriving?: Arriving;
  /** Actions; none while an answer is being written. */
  commands: TurnCommands;
  idle: boolean;
  editing: boolean;
};

/** Each new message makes the conversation's turns anew; what is the same in them is not drawn again. */
function sameTurn(a: TurnProps, b: TurnProps): boolean {
  const { turn: one, ...rest } = a;
  const { turn: other, ...others } = b;
  return (
    one.id === other.id &&
    one.last === other.last &&
    one.content === other.content &&
    one.facts === other.facts &&
    one.siblings.join() === other.siblings.join() &&
    (Object.keys(rest) as (keyof typeof rest)[]).every((it) => rest[it] === others[it])
  );
}

/** One message: who says it, its text, and what can be done with it. */
export const TurnView = memo(function TurnView(props: TurnProps) {
  const { session, turn, last, arriving, commands, idle, editing } = props;
  const t = useT();
  const own = turn.role === "user";
  if (own && editing)
    return (
      <EditTurn
        session={session}
        turn={turn}
        onCancel={() => commands.startEdit(null)}
        onSend={(question) => commands.edit(turn, question)}
      />
    );
  const actions = (
    <TurnActions turn={turn} commands={commands} idle={idle} onEdit={() => commands.startEdit(turn.id)} />
  );
  return (
    <article
      className="group/turn flex min-w-0 flex-col gap-2 [content-visibility:auto] [contain-intrinsic-size:auto_160px]"
      aria-busy={arriving ? true : undefined}
    >
      <div className="flex min-h-7 items-center gap-2">
        <h2 className="min-w-0 truncate font-semibold text-ink-2 text-xs">
          {own ? t.turn.you : (turn.facts.model ?? t.turn.model)}
        </h2>
        {own && <div className={cn("ml-auto", !last && QUIET)}>{actions}</div>}
      </div>
      {own ? (
        <UserText session={session} turn={turn} />
      ) : (
        <Answer turn={turn} arriving={arriving} last={last} />
      )}
      {!own && !arriving && (
        <>
          <TurnTrouble turn={turn} last={last} idle={idle} commands={commands} />
          {/* The buttons' symbols, not their borders, stand below the text. */}
          <div className="flex min-h-7 flex-wrap items-center gap-x-3">
            <Stats facts={turn.facts} />
            <div className={cn("first:-ml-1.5", !last && QUIET)}>{actions}</div>
          </div>
        </>
      )}
    </article>
  );
}, sameTurn);

function UserText({ session, turn }: { session: string; turn: Turn }) {
  const t = useT();
  const [whole, setWhole] = useState(false);
  const { content } = turn;
  const cut = !whole && content.length > LONG_QUESTION;
  return (
    <div className="flex flex-col items-start gap-2 rounded-lg border border-line bg-panel px-3 py-2">
      {turn.facts.pictures && (
        <SentPictures session={session} message={turn.id} count={turn.facts.pictures} />
      )}
      {content && (
        <p dir="auto" className="max-w-full whitespace-pre-wrap leading-6 [overflow-wrap:anywhere]">
          {cut ? `${content.slice(0, LONG_QUESTION)}…` : content}
        </p>
      )}
      {cut && (
        <button
          type="button"
          className="text-accent-text text-sm hover:underline"
          onClick={() => setWhole(true)}
        >
          {t.turn.showAll}
        </button>
      )}
    </div>
  );
}

function Answer({ turn, arriving, last }: { turn: Turn; arriving?: Arriving; last: boolean }) {
  const t = useT();
  const content = arriving ? turn.content + arriving.text : turn.content;
  const { reasoning, text, open } = splitReasoning(content);
  const thought = [reasoning, arriving?.reasoning].filter(Boolean).join("\n");
  const tools = arriving ? arriving.tools : (turn.facts.tool_calls ?? []);
  const thinking = arriving && (open || (Boolean(arriving.reasoning) && !arriving.text));
  return (
    <div dir="auto" className="flex min-w-0 flex-col gap-3">
      {thought && (
        <Reasoning
          text={thought}
          ms={turn.facts.reasoning_ms}
          since={thinking ? arriving.thinkingSince : undefined}
        />
      )}
      {text && (
        <Near text={text} now={last || Boolean(arriving)}>
          <Boundary
            of={text}
            instead={<p className="whitespace-pre-wrap [overflow-wrap:anywhere]">{text}</p>}
          >
            <Markdown text={text} growing={Boolean(arriving)} />
          </Boundary>
        </Near>
      )}
      {arriving && !text && !thought && tools.length === 0 && (
        <p className="animate-pulse text-ink-3">{t.turn.waiting}</p>
      )}
      {tools.length > 0 && <ToolCalls calls={tools} />}
    </div>
  );
}
