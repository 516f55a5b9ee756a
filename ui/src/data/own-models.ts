import { useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { modelKeys } from "./query-keys";

/** The models that one may call, whatever one's role is. Events tell of changes; what they do not tell is asked for. */
export function useOwnModels(enabled = true) {
  return useQuery({
    queryKey: modelKeys.own,
    queryFn: ({ signal }) => call("listOwnModels", { query: { limit: 1000 }, signal }),
    refetchInterval: 5000,
    enabled,
  });
}
