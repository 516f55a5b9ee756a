import { useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { useLiveOptions } from "@/live/connection";
import type { LiveJobs } from "@/live/patch";
import { jobKeys } from "./query-keys";

/** The jobs of exports, imports and restores, newest first. Events say when one moves on. */
export function useDeploymentJobs(enabled = true) {
  const live = useLiveOptions();
  return useQuery({
    queryKey: [...jobKeys.records, "deployment"],
    queryFn: ({ signal }) => call("listDeploymentJobs", { signal }),
    enabled,
    ...live,
  });
}

/** What events say of jobs since the page was opened, by kind and path. */
export function useLiveJobs(): LiveJobs {
  const none: LiveJobs = {};
  return useQuery({ queryKey: jobKeys.live, queryFn: () => none, staleTime: Infinity }).data ?? none;
}
