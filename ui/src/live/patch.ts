import { hashKey, type Query, type QueryClient, type QueryKey } from "@tanstack/react-query";
import type { LiveEvents, Model } from "@/api/types";
import { inferenceKeys, jobKeys, modelKeys, systemKeys, upstreamKeys } from "@/data/query-keys";

type Now = LiveEvents["model"];
type Pull = LiveEvents["pull"]["pull"];
export type Pulls = Record<number, NonNullable<Pull>>;
/** What events say of running jobs, by kind and path: they carry no id. */
export type LiveJobs = Record<string, LiveEvents["job"]>;

/** Puts what an event says into a record. Returns the same one if nothing of it changed. */
export function withEvent(model: Model, now: Now): Model {
  const { state, state_reason, needs_apply, archived } = now;
  const same =
    model.state === state &&
    model.state_reason === state_reason &&
    model.needs_apply === needs_apply &&
    model.archived === archived;
  // The reason and the diagnosis of an earlier start are over; those of this one come with the record.
  return same ? model : ({ ...model, state, state_reason, needs_apply, archived } as Model);
}

/** Whether the record must be fetched: the event tells of more than it carries. */
export function needsRecord(model: Model | undefined, now: Now): boolean {
  if (!model) return true;
  return (
    model.state !== now.state ||
    model.needs_apply !== now.needs_apply ||
    (model.diagnosis === null) !== (now.diagnosis === null)
  );
}

const firstOnTheWay = new WeakSet<Query>();

/**
 * Asks again for what is being fetched just now, and for `all` others, too: the answer may have been written before the event that
 * came meanwhile, and would take back what the event said. The very first answer is waited for, so that many events can't keep a
 * page from loading.
 */
function askAgain(client: QueryClient, queryKey: QueryKey, all: boolean): void {
  for (const query of client.getQueryCache().findAll({ queryKey })) askOneAgain(client, query, all);
}

function askOneAgain(client: QueryClient, query: Query, all: boolean): void {
  const again = () => void client.invalidateQueries({ queryKey: query.queryKey, exact: true });
  const { data, fetchStatus } = query.state;
  if (fetchStatus === "idle" ? all : data !== undefined) again();
  else if (fetchStatus !== "idle" && !firstOnTheWay.has(query)) {
    firstOnTheWay.add(query);
    const done = () => {
      firstOnTheWay.delete(query);
      again();
    };
    query.promise?.then(done, done);
  }
}

/** Puts a model's event into every list and record of the cache, and fetches the record if there is more to know. */
export function patchModel(client: QueryClient, now: Now): void {
  let stale = false;
  client.setQueriesData<Model[]>({ queryKey: modelKeys.lists }, (list) => {
    if (!list) return list;
    stale ||= needsRecord(
      list.find((it) => it.id === now.id),
      now,
    );
    return list.map((it) => (it.id === now.id ? withEvent(it, now) : it));
  });
  const one = client.getQueryData<Model>(modelKeys.one(now.id));
  if (one) {
    stale ||= needsRecord(one, now);
    client.setQueryData(modelKeys.one(now.id), withEvent(one, now));
  }
  askAgain(client, modelKeys.lists, stale);
  askAgain(client, modelKeys.one(now.id), stale);
}

/** Takes a deleted model out of the cache. */
export function dropModel(client: QueryClient, id: number): void {
  client.setQueriesData<Model[]>({ queryKey: modelKeys.lists }, (list) => list?.filter((it) => it.id !== id));
  askAgain(client, modelKeys.lists, false);
  client.removeQueries({ queryKey: modelKeys.one(id) });
}

/** Makes the cache agree with a snapshot of all models: after a start or a gap nothing older is believed. */
export function patchAll(client: QueryClient, all: LiveEvents["snapshot"]): void {
  const ids = new Set(all.map((it) => it.id));
  client.setQueriesData<Model[]>({ queryKey: modelKeys.lists }, (list) =>
    list?.filter((it) => ids.has(it.id)),
  );
  for (const now of all) patchModel(client, now);
  const pulls = all.flatMap(({ id, pull }) => (pull ? [[id, pull] as const] : []));
  client.setQueryData<Pulls>(modelKeys.pulls, Object.fromEntries(pulls));
}

/** What depends on the states of models and is known to the gateway only. */
const WITH_STATES = [modelKeys.own, inferenceKeys.running, upstreamKeys.all, systemKeys.gpus];

function askForStates(client: QueryClient): void {
  for (const key of WITH_STATES) {
    const query = client.getQueryCache().get(hashKey(key));
    if (query) askOneAgain(client, query, true);
  }
}

/** Asks again for what events keep true: some may have come between the answers and the moment from which a tab hears them. */
export function askForLive(client: QueryClient): void {
  askAgain(client, modelKeys.lists, true);
  askAgain(client, modelKeys.ones, true);
  askForStates(client);
  askAgain(client, jobKeys.records, true);
}

/** Puts one event into the cache. Events of logs are for their own readers. */
export function patch(client: QueryClient, event: string, data: string): void {
  const read = <K extends keyof LiveEvents>(): LiveEvents[K] => JSON.parse(data) as LiveEvents[K];
  switch (event) {
    case "snapshot":
      patchAll(client, read<"snapshot">());
      askForStates(client);
      return;
    case "reset":
      patchAll(client, read<"reset">());
      void client.invalidateQueries();
      return;
    case "model":
      patchModel(client, read<"model">());
      askForStates(client);
      return;
    case "model_deleted":
      dropModel(client, read<"model_deleted">().id);
      askForStates(client);
      return;
    case "models":
      // An answer that is on its way may be older.
      void client.cancelQueries({ queryKey: modelKeys.own }).then(() => {
        client.setQueryData(modelKeys.own, read<"models">());
      });
      askAgain(client, inferenceKeys.running, true);
      return;
    case "pull": {
      const { id, pull } = read<"pull">();
      client.setQueryData<Pulls>(modelKeys.pulls, (old = {}) => {
        const { [id]: _, ...rest } = old;
        return pull ? { ...rest, [id]: pull } : rest;
      });
      return;
    }
    case "job": {
      const job = read<"job">();
      client.setQueryData<LiveJobs>(jobKeys.live, (old = {}) => ({
        ...old,
        [`${job.job} ${job.path}`]: job,
      }));
      void client.invalidateQueries({ queryKey: jobKeys.records });
      return;
    }
    case "restore_drill":
      void client.invalidateQueries({ queryKey: ["system"] });
  }
}
