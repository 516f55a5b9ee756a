import { useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import { useLocal } from "@/app/local";
import { useChatsOf } from "@/data/chats";
import { type RunningModel, useConstraintsOf } from "@/data/inference";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { pathOf, type Turn } from "./tree";
import { useChosen } from "./use-conversation";

export const MOST_PANES = 4;

/** The word of the address that holds the model of a pane. */
const word = (at: number) => (at === 0 ? "model" : `model${at + 1}`);

/** One conversation beside others; without a session it has not begun. */
export type PaneOf = {
  session: string | undefined;
  model: string;
  turns: Turn[];
  /** The gateway says that an answer is being written. */
  answering: boolean;
};

const modelOf = (turns: Turn[]): string | undefined => turns.findLast((it) => it.facts.model)?.facts.model;

/** The conversations on the page, by the address: `/playground/1?with=2,3&model=qwen`. */
export function usePanes(running: RunningModel[] | undefined) {
  const { id } = useParams({ strict: false });
  const url = useUrl();
  const setUrl = useSetUrl();
  const [lastModel, keepModel] = useLocal("model", "");
  const chosen = useChosen();
  const { with: others = "" } = url;
  const sessions = useMemo(
    () => (id ? [id, ...others.split(",").filter(Boolean)].slice(0, MOST_PANES) : []),
    [id, others],
  );
  const chats = useChatsOf(sessions);
  const first =
    running?.find((it) => it.served_model_name === lastModel)?.served_model_name ??
    running?.[0]?.served_model_name ??
    "";
  const panes: PaneOf[] = id
    ? sessions.map((session, at) => {
        const chat = chats[at]?.data;
        const turns = pathOf(chat?.messages ?? [], chosen);
        const answering = chat?.answering ?? false;
        return {
          session,
          turns,
          answering,
          model: url[word(at)] ?? modelOf(turns) ?? chat?.model_name ?? "",
        };
      })
    : Array.from({ length: MOST_PANES }, (_, at) => url[word(at)])
        .map((it, at) => it ?? (at === 0 ? first : undefined))
        .filter((it) => it !== undefined)
        .map((model) => ({ session: undefined, model, turns: [], answering: false }));
  const constraints = useConstraintsOf(panes.map((it) => it.model));
  const setModel = (at: number, model: string) => {
    if (at === 0) keepModel(model);
    setUrl({ [word(at)]: model });
  };
  /** Takes a model out of a comparison that has not begun. */
  const removePane = (at: number) => {
    const left = panes.filter((_, it) => it !== at).map((it) => it.model);
    setUrl(Object.fromEntries(Array.from({ length: MOST_PANES }, (_, it) => [word(it), left[it]])));
  };
  /** What stands in the address of a new comparison with one more model. */
  const oneMore = (): Record<string, string> => {
    const models = panes.map((it) => it.model);
    const free = running?.find((it) => !models.includes(it.served_model_name))?.served_model_name;
    const all = [...models, free ?? models[0] ?? ""];
    return Object.fromEntries(all.map((model, at) => [word(at), model]));
  };
  return { panes, sessions, constraints, setModel, removePane, oneMore };
}
