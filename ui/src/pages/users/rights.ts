import type { Role, User } from "@/api/types";
import { hasRole, useMe } from "@/data/session";
import { useOwners } from "@/data/users";

export const ROLES: Role[] = ["user", "org_admin", "admin", "owner"];

/** What the signed-in user may do with others, as the gateway decides it. */
export function useRights() {
  const me = useMe();
  const role = me?.role ?? "user";
  const global = hasRole(role, "admin");
  return {
    me,
    /** Sees all organisations. */
    global,
    /** Nobody gives a role above their own. */
    roles: ROLES.filter((it) => hasRole(role, it)),
    mayTouch: (user: User) => hasRole(role, user.role),
    /** An org admin bounds only those below them. */
    mayBound: (of: Role) => global || !hasRole(of, role),
  };
}

/** Whether this is the last owner who can sign in, which the gateway keeps. */
export function useIsLastOwner(user: User | undefined): boolean {
  const owners = useOwners(user?.role === "owner");
  return owners.data?.length === 1 && owners.data[0]?.id === user?.id;
}
