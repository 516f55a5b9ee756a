import { useEffect, useState } from "react";
import type { Settings } from "@/data/model-files";
import { keep, kept } from "@/kit/kept";
import { withoutSecrets } from "@/parts/models/settings";

/** What was typed on the configuration tab of a model and is not saved. */
export type Typed = {
  /** What was saved when the editing began, and which state of the record that was; `null`: nothing is changed. */
  base: { settings: Settings; revision: string; whole: boolean } | null;
  changes: Settings;
  token: string;
  dropToken: boolean;
};

const NOTHING: Typed = { base: null, changes: {}, token: "", dropToken: false };

const isObject = (it: unknown): it is Settings => typeof it === "object" && it !== null && !Array.isArray(it);

/** Takes what a tab kept, unless another version of the page wrote it in another form. */
export function readTyped(value: unknown): Typed {
  if (!isObject(value) || !isObject(value.changes)) return NOTHING;
  const { base, changes } = value;
  const known = isObject(base) && isObject(base.settings) && typeof base.revision === "string";
  if (!known && Object.keys(changes).length > 0) return NOTHING;
  const begun = known
    ? { settings: base.settings as Settings, revision: base.revision as string, whole: false }
    : null;
  return { ...NOTHING, base: begun, changes, dropToken: value.dropToken === true };
}

/** Returns what may be kept of it: everything but secrets. `null`: there is nothing. */
export function keptOf({ base, changes, dropToken }: Typed): unknown {
  const plain = withoutSecrets(changes);
  if (Object.keys(plain).length === 0 && !dropToken) return null;
  return { base: base && { ...base, settings: withoutSecrets(base.settings) }, changes: plain, dropToken };
}

export type Typing = {
  typed: Typed;
  change: (to: (old: Typed) => Partial<Typed>) => void;
  forget: () => void;
  isChanged: boolean;
};

/** Holds what is typed for a model: beside the tabs, so that one can look at another tab, and over a reload. */
export function useTyped(id: number): Typing {
  const name = `model ${id}`;
  const [typed, setTyped] = useState(() => readTyped(kept(name)));
  useEffect(() => keep(name, keptOf(typed)), [name, typed]);
  const { changes, token, dropToken } = typed;
  return {
    typed,
    change: (to) => setTyped((old) => ({ ...old, ...to(old) })),
    forget: () => setTyped(NOTHING),
    isChanged: Object.keys(changes).length > 0 || token !== "" || dropToken,
  };
}
