import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useRef } from "react";
import { useChat } from "@/data/chats";
import { toastError } from "@/kit/toast";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { keepUnsaved } from "./keep";
import type { Parameters } from "./parameters";
import { dropRunning, isWriting, type Running, useRunning } from "./running";
import { askFor, say } from "./talk";
import { pathOf, type Turn } from "./tree";
import type { Arriving } from "./turn";
import type { TurnCommands } from "./turn-actions";
import { useInStep } from "./use-in-step";

/** The messages that are chosen, by the address: `?at=12,45`. */
export function useChosen(): number[] {
  const { at = "" } = useUrl();
  return useMemo(() => at.split(",").map(Number).filter(Boolean), [at]);
}

const arrivingOf = (running: Running): Arriving => ({
  reasoning: running.reasoning,
  text: running.text,
  tools: running.tools,
  thinkingSince: running.ttft === null ? null : running.startedAt + running.ttft,
});

/** The turns of a chat with what arrives just now. */
export function turnsWith(
  path: Turn[],
  running: Running | undefined,
): { turns: Turn[]; arriving?: Arriving } {
  // An answer that failed brought nothing: the question stands last.
  if (!running) return { turns: path };
  const at = path.findIndex((it) => it.last === running.parent);
  const upTo = at < 0 ? path : path.slice(0, at + 1);
  if (running.state === "failed") return { turns: upTo };
  const arriving = arrivingOf(running);
  if (running.continues) return { turns: upTo, arriving };
  const id = -1 - running.parent;
  const turn: Turn = {
    id,
    last: id,
    role: "assistant",
    content: "",
    facts: { model: running.model, reasoning_ms: running.reasoningMs ?? undefined },
    at: 0,
    parent: running.parent,
    siblings: [id],
  };
  return { turns: [...upTo, turn], arriving };
}

/** Why a conversation does not end with an answer, and what can be done about it. */
export type Trouble =
  | { kind: "lost" }
  | { kind: "unanswered"; ask: () => void }
  | { kind: "failed"; error: unknown; ask: () => void; withoutPictures?: () => void }
  | { kind: "unsaved" | "interrupted"; error: unknown; save: () => void; ask: () => void };

type Of = {
  session: string;
  model: string;
  parameters: Parameters;
  onEditing: (id: number | null) => void;
};

/** A chat as it is shown, and what can be done with it. */
export function useConversation({ session, model, parameters, onEditing }: Of) {
  const client = useQueryClient();
  const { data } = useChat(session);
  const running = useRunning(session);
  const chosen = useChosen();
  const setUrl = useSetUrl();
  const messages = data?.messages;
  const parent = running?.parent;
  const path = useMemo(
    () => pathOf(messages ?? [], parent === undefined ? chosen : [parent]),
    [messages, chosen, parent],
  );
  const { turns, arriving } = turnsWith(path, running);
  const answering = isWriting(running) || (data?.answering ?? false);
  const last = turns.at(-1);
  const waits = !running && !answering && last?.role === "user";
  useInStep(session, waits ? last.id : undefined);

  // The commands stay the same, so that messages which do not change are not drawn again.
  const now = useRef({ turns, model, parameters });
  now.current = { turns, model, parameters };
  const ask = useCallback(
    (upTo: Turn[], goOn = false) => {
      setUrl({ at: undefined });
      dropRunning(session);
      const { model, parameters } = now.current;
      askFor(client, { session, model, parameters }, upTo, goOn).catch((error) => toastError(error));
    },
    [client, session, setUrl],
  );
  const commands = useMemo<TurnCommands>(() => {
    const before = (turn: Turn) => {
      const { turns } = now.current;
      return turns.slice(
        0,
        turns.findIndex((it) => it.id === turn.id),
      );
    };
    return {
      startEdit: onEditing,
      edit: async (turn, question) => {
        const { model, parameters } = now.current;
        await say(client, { session, model, parameters }, before(turn), question);
        setUrl({ at: undefined });
        onEditing(null);
      },
      regenerate: (turn) => ask(before(turn)),
      goOn: (turn) => ask([...before(turn), turn], true),
      show: (id) => setUrl({ at: String(id) }),
    };
  }, [client, session, ask, setUrl, onEditing]);

  return {
    turns,
    arriving,
    idle: !answering && running?.state !== "unsaved",
    commands,
    trouble: troubleOf(),
  };

  /** What stands below the last message, with what can be done about it. */
  function troubleOf(): Trouble | undefined {
    if (running?.state === "lost") return { kind: "lost" };
    if (running?.state === "unsaved") {
      const { parent, continues, unsaved, error } = running;
      const asked = turns.slice(0, turns.findIndex((it) => it.last === parent) + 1);
      return {
        kind: unsaved?.facts.ending === "interrupted" ? "interrupted" : "unsaved",
        error,
        save: () => void keepUnsaved(client, session),
        ask: () => ask(asked, continues),
      };
    }
    if (running?.state === "failed") {
      const { error, continues } = running;
      const bare = turns.map((it) => ({ ...it, facts: { ...it.facts, pictures: undefined } }));
      return {
        kind: "failed",
        error,
        ask: () => ask(turns, continues),
        withoutPictures: turns.some((it) => it.facts.pictures) ? () => ask(bare) : undefined,
      };
    }
    return waits ? { kind: "unanswered", ask: () => ask(turns) } : undefined;
  }
}
