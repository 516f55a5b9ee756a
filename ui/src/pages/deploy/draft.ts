import type { Settings } from "@/data/model-files";

/** What the form of this page holds. */
export type Draft = {
  engine: string;
  task: string;
  served: string;
  name: string;
  token: string;
  force: boolean;
  tuned: boolean;
  settings: Settings;
};

/** Begins a draft with settings that the gateway recommends, or with those of another model. */
export function draftOf(given: Settings, served = ""): Draft {
  const { engine_type, task, ...settings } = given;
  return {
    engine: String(engine_type ?? "vllm"),
    task: String(task ?? "generate"),
    served,
    name: "",
    token: "",
    force: false,
    tuned: false,
    settings,
  };
}

/** Whether a value that was kept has the form of a draft: an older version may have kept it. */
export function isDraft(value: unknown): value is Draft {
  if (typeof value !== "object" || value === null) return false;
  const it = value as Record<keyof Draft, unknown>;
  return (
    [it.engine, it.task, it.served, it.name, it.token].every((text) => typeof text === "string") &&
    [it.force, it.tuned].every((yes) => typeof yes === "boolean") &&
    typeof it.settings === "object" &&
    it.settings !== null
  );
}

/** Returns the body of a create request. What is empty is left out: the gateway fills it in from the files. */
export function createBody(draft: Draft): Settings {
  return {
    ...draft.settings,
    engine_type: draft.engine,
    task: draft.task,
    ...(draft.served && { served_name: draft.served }),
    ...(draft.name && { name: draft.name }),
    ...(draft.token && { hub_token: draft.token }),
    ...(draft.force && { force: true }),
    ...(draft.tuned && { profile: "tuned" }),
  };
}
