import type { AuditRow } from "@/data/audit";
import type { en } from "./en";

type Texts = typeof en;

/** Who did it: the name that they had then. */
export function actorText(row: Pick<AuditRow, "actor" | "actor_type" | "actor_id">, t: Texts): string {
  if (row.actor_type === "settings") return t.settings;
  if (row.actor) return row.actor;
  return row.actor_type === "anonymous" ? t.anonymous : String(row.actor_id ?? "–");
}

/** What they did, in words; an action of another version is shown as it is. */
export function actionText(row: Pick<AuditRow, "action">, t: Texts): string {
  return Object.entries(t.actions).find(([word]) => word === row.action)?.[1] ?? row.action;
}
