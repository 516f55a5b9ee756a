import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Upstream } from "@/api/types";
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

/** Probes the engines of these served names now, or all of them. The answer takes their places in the list. */
export function useRefreshUpstreams() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (served_names?: string[]) => call("refreshUpstreams", { body: { served_names } }),
    onSuccess: (probed) =>
      client.setQueryData<Upstream[]>(upstreamKeys.all, (old) =>
        old?.map(
          (it) => probed.find((now) => now.served_name === it.served_name && now.url === it.url) ?? it,
        ),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: upstreamKeys.all }),
  });
}
