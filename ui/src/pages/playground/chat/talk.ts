import type { QueryClient } from "@tanstack/react-query";
import { createChat } from "@/data/chats";
import { type Constraints, constraintsQuery } from "@/data/inference";
import { ask } from "./answer";
import { keepAll } from "./keep";
import { keepPictures, picturesOf } from "./kept";
import { type Parameters, toolsOf } from "./parameters";
import { requestOf } from "./request";
import { dropRunning, runningOf } from "./running";
import type { Turn } from "./tree";

const constraintsOf = (client: QueryClient, model: string): Promise<Constraints> =>
  client.fetchQuery(constraintsQuery(model));

export type Question = { text: string; pictures: string[] };
type With = { session: string; model: string; parameters: Parameters };

/** Has the model answer the last of `turns`, or go on with it. It returns when the answer has ended. */
export async function askFor(client: QueryClient, of: With, turns: Turn[], goOn = false): Promise<void> {
  const { session, model, parameters } = of;
  const constraints = await constraintsOf(client, model);
  const pictures = new Map<number, string[]>();
  for (const turn of turns)
    if (turn.facts.pictures) pictures.set(turn.id, await picturesOf(session, turn.id));
  const request = requestOf({ model, turns, parameters, constraints, pictures, goOn });
  const parent = turns.at(-1)?.last ?? 0;
  await ask(client, { session, parent, continues: goOn, model, request });
}

/** Adds a question behind `turns`, and has the model answer it. It returns when the question is kept; the answer comes after. */
export async function say(client: QueryClient, of: With, turns: Turn[], question: Question): Promise<void> {
  const { session } = of;
  // What can't be sent is found before anything is kept.
  toolsOf(of.parameters.tools);
  await constraintsOf(client, of.model);
  if (runningOf(session)?.state === "failed") dropRunning(session);
  const parent = turns.at(-1)?.last ?? 0;
  const pictures = question.pictures.length || undefined;
  const ids = await keepAll(client, session, "user", question.text, { parent, pictures });
  const [id = 0] = ids;
  if (pictures) await keepPictures(session, id, question.pictures);
  const turn: Turn = {
    id,
    last: ids.at(-1) ?? id,
    role: "user",
    content: question.text,
    facts: { parent, pictures },
    at: Date.now(),
    parent,
    siblings: [id],
  };
  void askFor(client, of, [...turns, turn]);
}

/** Begins a chat for each model with the same question. Returns the ids of the chats. */
export async function begin(
  client: QueryClient,
  models: string[],
  parameters: Parameters,
  question: Question,
): Promise<string[]> {
  toolsOf(parameters.tools);
  const chats = await Promise.all(
    models.map(async (model) => {
      const { engine_type } = await constraintsOf(client, model);
      return { model, chat: await createChat(client, { model_name: model, engine_type }) };
    }),
  );
  await Promise.all(
    chats.map(({ model, chat }) => say(client, { session: chat.id, model, parameters }, [], question)),
  );
  return chats.map(({ chat }) => chat.id);
}
