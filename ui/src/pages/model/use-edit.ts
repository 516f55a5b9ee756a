import { useMemo } from "react";
import type { Body, Model } from "@/api/types";
import { type ModelField, type Settings, useSavedPreview } from "@/data/model-files";
import { useChangeModel } from "@/data/models";
import { formErrors } from "@/kit/form";
import { useRested } from "@/kit/rested";
import {
  bodyOf,
  type Change,
  changesBetween,
  secretsOf,
  settingsOf,
  withChanges,
} from "@/parts/models/settings";
import type { Typing } from "./typed";

const identified = (model: Model, fields: ModelField[]): Settings => ({
  name: model.name,
  served_name: model.served_name,
  ...settingsOf(model, fields),
});

/** A model as its form holds it: what is saved, what is changed here, and what others changed meanwhile. */
export function useEdit(model: Model, fields: ModelField[], { typed, change, forget }: Typing) {
  const save = useChangeModel();
  const saved = useMemo(() => identified(model, fields), [model, fields]);
  // Only changes are held, so that those of others show at once.
  const { base, changes, token, dropToken } = typed;
  const { revision } = model;
  const now = withChanges(saved, changes);
  const mine = changesBetween(saved, now);
  // A reload loses what a secret was before.
  const begun = base && (base.whole ? base.settings : { ...base.settings, ...secretsOf(saved) });
  const isOutdated = base !== null && base.revision !== revision;
  const theirs: Change[] = begun && isOutdated ? changesBetween(begun, saved) : [];
  const seen = { settings: saved, revision, whole: true };
  const set = (name: string, to: unknown) => {
    const value = to ?? null;
    const unchanged = changesBetween(saved, withChanges(saved, { [name]: value })).length === 0;
    change((old) => {
      const { [name]: _, ...others } = old.changes;
      const next = unchanged ? others : { ...others, [name]: value };
      return { changes: next, base: Object.keys(next).length > 0 ? (old.base ?? seen) : null };
    });
  };
  const names = [...Object.keys(now), ...mine.map((it) => it.name), "hub_token"];
  const errors = formErrors(save.error, names);
  const version = `${model.updated_at} ${model.state}`;
  const preview = useSavedPreview(model.id, version, useRested(bodyOf(mine)));
  const before = useSavedPreview(model.id, version);
  const checked = formErrors(preview.error, names);
  const discard = () => {
    forget();
    save.reset();
  };
  const send = async () => {
    const body = {
      ...bodyOf(mine),
      ...(dropToken ? { hub_token: null } : token && { hub_token: token }),
    };
    // Refused if the record is another one than is shown: events don't tell of every change.
    await save.mutateAsync({ id: model.id, body: body as Body<"changeModel">, revision });
    discard();
  };
  const text = (name: string): string => (typeof now[name] === "string" ? now[name] : "");
  return {
    before: saved as Settings,
    settings: now,
    identity: { name: text("name"), served_name: text("served_name") },
    setIdentity: (name: "name" | "served_name", to: string) => set(name, to),
    token,
    setToken: (to: string) => change(() => ({ token: to })),
    dropToken,
    setDropToken: (to: boolean) => change(() => ({ dropToken: to })),
    set,
    setMany: (to: Settings) => {
      for (const [name, value] of Object.entries(to)) set(name, value);
    },
    mine,
    /** What a start would do with the changes; the token of the hub is not part of them. */
    preview: preview.data,
    /** Why that is not known, as far as no field says it. */
    previewError: checked.rest,
    savedCommand: mine.length > 0 ? (before.data?.command ?? null) : null,
    theirs,
    isOutdated,
    seen: () => {
      change(() => ({ base: seen }));
      save.reset();
    },
    count: mine.length + (token || dropToken ? 1 : 0),
    discard,
    send,
    busy: save.isPending,
    error: errors.rest,
    errorOf: (name: string) => errors.of(name) ?? checked.of(name),
  };
}

export type Edit = ReturnType<typeof useEdit>;
