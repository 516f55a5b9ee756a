import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { useChat } from "@/data/chats";
import { toastError } from "@/kit/toast";
import { useSetUrl, useUrl } from "@/kit/url-state";
import type { Parameters } from "./parameters";
import { dropRunning, type Running, useRunning } from "./running";
import { askFor, keepUnsaved, recover, say } from "./talk";
import { pathOf, type Turn } from "./tree";
import type { Arriving } from "./turn";
import type { TurnCommands } from "./turn-actions";

/** The messages that are chosen, by the address: `?at=12,45`. */
export function useChosen(): number[] {
  const { at = "" } = useUrl();
  return useMemo(() => at.split(",").map(Number).filter(Boolean), [at]);
}

const arrivingOf = (running: Running): Arriving => ({
  reasoning: running.reasoning,
  text: running.text,
  tools: running.tools,
  thinkingSince: running.firstAt,
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
    facts: { model: running.model },
    at: 0,
    parent: running.parent,
    siblings: [id],
  };
  return { turns: [...upTo, turn], arriving };
}

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
  const idle = !running || running.state === "failed";
  useEffect(() => {
    if (messages) void recover(client, session, messages);
  }, [client, session, messages]);

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
      edit: async (turn, text) => {
        const { model, parameters } = now.current;
        await say(client, { session, model, parameters }, before(turn), { text, pictures: [] });
        setUrl({ at: undefined });
        onEditing(null);
      },
      regenerate: (turn) => ask(before(turn)),
      goOn: (turn) => ask([...before(turn), turn], true),
      show: (id) => setUrl({ at: String(id) }),
    };
  }, [client, session, ask, setUrl, onEditing]);

  const last = turns.at(-1);
  const failed =
    running && (running.state === "failed" || running.state === "unsaved")
      ? {
          error: running.error,
          unsaved: running.state === "unsaved",
          again: () =>
            running.state === "unsaved" ? void keepUnsaved(client, session) : ask(turns, running.continues),
          withoutPictures:
            running.state === "failed" && turns.some((it) => it.facts.pictures)
              ? () => ask(turns.map((it) => ({ ...it, facts: { ...it.facts, pictures: undefined } })))
              : undefined,
        }
      : undefined;
  const unanswered = !running && last?.role === "user" ? () => ask(turns) : undefined;
  return { turns, arriving, idle, commands, failed, unanswered };
}
