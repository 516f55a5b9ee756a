import { useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { upstreamKeys } from "./query-keys";

/** Every address that answers a route, with its health. */
export function useUpstreams(enabled = true) {
  return useQuery({
    queryKey: upstreamKeys.all,
    queryFn: ({ signal }) => call("listUpstreams", { query: { limit: 1000 }, signal }),
    refetchInterval: 5000,
    enabled,
  });
}
