import type { User } from "@/api/types";
import { useT as useCommonT, useFormat } from "@/i18n";
import type { Theirs } from "@/kit/changed-note";
import { LIMITS } from "@/kit/limits/limits";
import { useT as useLimitsT } from "@/kit/limits/t";
import { useT } from "./t";

/** What somebody else changed since the form was opened. */
export function useTheirs(base: User | undefined, latest: User | undefined): Theirs[] {
  const t = useT();
  const c = useCommonT();
  const names = useLimitsT().names;
  const format = useFormat();
  if (!base || !latest) return [];
  const number = (value: number | null) => (value === null ? c.word.unlimited : format.integer(value));
  const pairs: [string, (user: User) => string][] = [
    [t.columns.name, (it) => it.username],
    [t.columns.role, (it) => c.role[it.role]],
    [t.columns.org, (it) => it.org_name],
    [t.columns.state, (it) => (it.enabled ? c.state.active : c.state.disabled)],
    [t.columns.models, (it) => it.models?.join(", ") ?? t.allModels],
    ...LIMITS.map((name): [string, (user: User) => string] => [names[name], (it) => number(it[name])]),
  ];
  return pairs.flatMap(([label, of]) => (of(base) === of(latest) ? [] : [{ label, value: of(latest) }]));
}
