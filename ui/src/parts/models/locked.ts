import { useModelFields } from "@/data/model-files";
import { hasRole, useMe } from "@/data/session";

/** Tells of a setting whether only an owner may change it, and the signed-in user is none. */
export function useLocked(): (name: string) => boolean {
  const me = useMe();
  const { data: fields = [] } = useModelFields();
  if (me && hasRole(me.role, "owner")) return () => false;
  return (name) => fields.some((it) => it.name === name && it.owner_only);
}
