import { useEffect, useMemo, useState } from "react";
import { type Settings, usePreview } from "@/data/model-files";
import { formErrors } from "@/kit/form";
import { useRested } from "@/kit/rested";
import { useUrl } from "@/kit/url-state";
import { withChanges } from "@/parts/models/settings";
import { createBody, type Draft, draftOf } from "./draft";
import { forgetDraft, keepDraft, keptDraft } from "./kept-draft";

export const IDENTITY = ["engine_type", "task", "served_name", "name", "hub_token", "force", "profile"];

/** A draft with what a start of it would do, 300 ms after the last change. A reload of the page gives back what was typed. */
export function useDraft(given: Settings, served: string) {
  const { pick, file, repo, from } = useUrl();
  const [place] = useState(() => JSON.stringify([pick, file, repo, from]));
  const [first] = useState(() => draftOf(given, served));
  const [kept, setKept] = useState(() => keptDraft(place, first));
  const [draft, setDraft] = useState(kept ?? first);
  useEffect(() => keepDraft(place, first, draft), [place, first, draft]);
  const body = useMemo(() => createBody(draft), [draft]);
  const preview = usePreview(useRested(body));
  const before = usePreview(useMemo(() => createBody(first), [first]));
  const setMany = (changes: Settings) =>
    setDraft((old) => ({ ...old, settings: withChanges(old.settings, changes) }));
  const names = [...IDENTITY, ...Object.keys(draft.settings), ...Object.keys(first.settings)];
  return {
    first,
    draft,
    body,
    change: (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part })),
    set: (name: string, to: unknown) => setMany({ [name]: to }),
    setMany,
    preview,
    // Fields are placed by the form; those that it doesn't have stay with the answer as a whole.
    previewErrors: formErrors(preview.error, names),
    before: before.data?.command ?? null,
    /** What is shown was typed before a reload. */
    restored: kept !== null,
    startAnew: () => {
      setKept(null);
      setDraft(first);
    },
    /** It is saved: nothing of it is needed any more. */
    forget: () => forgetDraft(place),
  };
}
