import { useEffect, useMemo, useState } from "react";
import { type Settings, usePreview } from "@/data/model-files";
import { formErrors } from "@/kit/form";
import { withChanges } from "@/parts/models/settings";

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

export const IDENTITY = ["engine_type", "task", "served_name", "name", "hub_token", "force", "profile"];

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

function useDebounced<T>(value: T, ms: number): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return late;
}

/** A draft with what a start of it would do, 300 ms after the last change. */
export function useDraft(given: Settings, served: string) {
  const [first] = useState(() => draftOf(given, served));
  const [draft, setDraft] = useState(first);
  const body = useMemo(() => createBody(draft), [draft]);
  const preview = usePreview(useDebounced(body, 300));
  const before = usePreview(useMemo(() => createBody(first), [first]));
  const set = (name: string, to: unknown) =>
    setDraft((old) => ({ ...old, settings: withChanges(old.settings, { [name]: to }) }));
  const names = [...IDENTITY, ...Object.keys(draft.settings), ...Object.keys(first.settings)];
  return {
    first,
    draft,
    body,
    change: (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part })),
    set,
    setMany: (changes: Settings) =>
      setDraft((old) => ({ ...old, settings: withChanges(old.settings, changes) })),
    preview,
    // Fields are placed by the form; those that it doesn't have stay with the answer as a whole.
    previewErrors: formErrors(preview.error, names),
    before: before.data?.command ?? null,
  };
}
