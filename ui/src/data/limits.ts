import { useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { limitKeys } from "./query-keys";

/** What is allowed, used and left of one's own limits, those of one's keys, and those of one's organisation. */
export function useOwnLimits() {
  return useQuery({
    queryKey: limitKeys.own,
    queryFn: ({ signal }) => call("getOwnLimits", { signal }),
    refetchInterval: 5000,
  });
}
