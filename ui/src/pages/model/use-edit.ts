import { useMemo, useState } from "react";
import type { Body, Model } from "@/api/types";
import type { ModelField, Settings } from "@/data/model-files";
import { useChangeModel, useModel } from "@/data/models";
import { formErrors } from "@/kit/form";
import { bodyOf, type Change, changesBetween, settingsOf, withChanges } from "@/parts/models/settings";
import { useT } from "./t";

const identified = (model: Model, fields: ModelField[]): Settings => ({
  name: model.name,
  served_name: model.served_name,
  ...settingsOf(model, fields),
});

/** A model as its form holds it: what is saved, what is changed here, and what others changed meanwhile. */
export function useEdit(model: Model, fields: ModelField[]) {
  const save = useChangeModel();
  const t = useT();
  const { refetch } = useModel(model.id);
  const saved = useMemo(() => identified(model, fields), [model, fields]);
  // What was saved when the editing began; only changes are held, so that those of others show at once.
  const [base, setBase] = useState<Settings>(saved);
  const [changes, setChanges] = useState<Settings>({});
  const [token, setToken] = useState("");
  const [dropToken, setDropToken] = useState(false);
  const now = withChanges(saved, changes);
  const mine = changesBetween(saved, now);
  const dirty = Object.keys(changes).length > 0;
  const theirs: Change[] = dirty ? changesBetween(base, saved) : [];
  const set = (name: string, to: unknown) => {
    if (!dirty) setBase(saved);
    setChanges((old) => {
      const next: Settings = { ...old, [name]: to ?? null };
      const unchanged = changesBetween(saved, withChanges(saved, { [name]: to ?? null })).length === 0;
      if (unchanged) delete next[name];
      return next;
    });
  };
  const errors = formErrors(save.error, [...Object.keys(now), ...mine.map((it) => it.name), "hub_token"]);
  const discard = () => {
    setChanges({});
    setToken("");
    setDropToken(false);
    save.reset();
  };
  const send = async () => {
    // Events don't tell of every change of a record, so it is looked at once more before anything is overwritten.
    const { data: fresh } = await refetch();
    const clash = fresh ? changesBetween(dirty ? base : saved, identified(fresh, fields)) : [];
    if (clash.length > 0) throw new Error(t.theirs);
    const body = {
      ...bodyOf(mine),
      ...(dropToken ? { hub_token: null } : token && { hub_token: token }),
    };
    await save.mutateAsync({ id: model.id, body: body as Body<"changeModel"> });
    discard();
  };
  const text = (name: string): string => (typeof now[name] === "string" ? now[name] : "");
  return {
    before: saved as Settings,
    settings: now,
    identity: { name: text("name"), served_name: text("served_name") },
    setIdentity: (name: "name" | "served_name", to: string) => set(name, to),
    token,
    setToken,
    dropToken,
    setDropToken,
    set,
    mine,
    theirs,
    seen: () => setBase(saved),
    count: mine.length + (token || dropToken ? 1 : 0),
    discard,
    send,
    busy: save.isPending,
    error: errors.rest,
    errorOf: errors.of,
  };
}

export type Edit = ReturnType<typeof useEdit>;
