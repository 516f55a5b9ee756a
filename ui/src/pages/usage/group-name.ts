import type { Group } from "@/data/usage-explore";
import type { Dimension } from "./filter";
import type { useT } from "./t";

/** What people call a group; requests without a model, a key or a user have names of their own. */
export function groupName(group: Group, by: Dimension, t: ReturnType<typeof useT>): string {
  if (by === "model") return group.model_name || t.groups.noModel;
  if (group.group_id === null) return by === "key" ? t.groups.noKey : t.groups.noUser;
  const name = group.group || `#${group.group_id}`;
  return group.deleted ? `${name} (${t.filters.deleted})` : name;
}
