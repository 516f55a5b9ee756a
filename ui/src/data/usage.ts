import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { call, callPage } from "@/api/client";
import type { Query } from "@/api/types";
import { usageKeys } from "./query-keys";

type Given<T> = NonNullable<T>;
type Options = { enabled?: boolean; refetchInterval?: number };

/** Rows of the ledger, newest first, with the number of all that match. */
export function useUsageRows(query: Given<Query<"listUsage">>, options: Options = {}) {
  return useQuery({
    queryKey: [...usageKeys.all, "rows", query],
    queryFn: ({ signal }) => callPage("listUsage", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
  });
}

/** Sums over time, one entry for every bucket. */
export function useUsageSeries(query: Given<Query<"getUsageSeries">>, options: Options = {}) {
  return useQuery({
    queryKey: [...usageKeys.all, "series", query],
    queryFn: ({ signal }) => call("getUsageSeries", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
  });
}

/** The same three for the signed-in user only, whom every role may ask about. */
export function useOwnUsageRows(query: Given<Query<"listOwnUsage">>, options: Options = {}) {
  return useQuery({
    queryKey: [...usageKeys.all, "own-rows", query],
    queryFn: ({ signal }) => callPage("listOwnUsage", { query, signal }),
    placeholderData: keepPreviousData,
    ...options,
  });
}
