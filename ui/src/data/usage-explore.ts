import {
  infiniteQueryOptions,
  keepPreviousData,
  useInfiniteQuery,
  usePrefetchInfiniteQuery,
  useQueries,
  useQuery,
} from "@tanstack/react-query";
import { call, callPage } from "@/api/client";
import type { Answer, Query, UsageRow } from "@/api/types";
import { usageKeys } from "./query-keys";

/** What a question about usage is narrowed by. */
export type UsageFilter = Omit<NonNullable<Query<"getUsageLatency">>, "hours">;
export type Bucket = NonNullable<NonNullable<Query<"getUsageSeries">>["bucket"]>;
export type Group = Answer<"aggregateUsage">[number];
export type GroupQuery = UsageFilter &
  Pick<NonNullable<Query<"aggregateUsage">>, "group_by" | "sort" | "limit" | "offset">;

/** One's own usage has the same questions, without whose it is. */
function ofOwn<T extends UsageFilter>({ user_id: _, org_id: __, ...rest }: T) {
  return rest;
}

const kept = { placeholderData: keepPreviousData } as const;
const PAGE = 500;

/** Rows can also be narrowed to one request, by the id that its client saw. */
export type RowFilter = UsageFilter & Pick<NonNullable<Query<"listUsage">>, "req_id">;

function fetchRows(filter: RowFilter, own: boolean, limit: number, offset: number, signal: AbortSignal) {
  const query = { ...filter, limit, offset };
  return own
    ? callPage("listOwnUsage", { query: ofOwn(query), signal })
    : callPage("listUsage", { query, signal });
}

/** Rows of the ledger, the newest first, page by page. The range must have an end, or rows would come twice. */
export function useRowPages(filter: RowFilter, own: boolean) {
  const options = infiniteQueryOptions({
    queryKey: [...usageKeys.all, "pages", own, filter],
    queryFn: ({ signal, pageParam }) => fetchRows(filter, own, PAGE, pageParam, signal),
    initialPageParam: 0,
    getNextPageParam: ({ items, total }, _, offset) =>
      items.length === PAGE && offset + PAGE < total ? offset + PAGE : undefined,
    staleTime: Infinity,
  });
  // While the page is rendered, and so before the sums are asked for: a browser has six connections, and rows are there first.
  usePrefetchInfiniteQuery(options);
  return useInfiniteQuery({ ...options, ...kept });
}

/** How many rows match. While the end of the range moves on, the last number stays until the next one is there. */
export function useRowCount(filter: RowFilter, own: boolean, options: { enabled?: boolean } = {}) {
  const { to, ...rest } = filter;
  const same = JSON.stringify([own, rest]);
  return useQuery({
    queryKey: [...usageKeys.all, "count", same, to],
    queryFn: async ({ signal }) => (await fetchRows(filter, own, 1, 0, signal)).total,
    placeholderData: (last, query) => (query?.queryKey.includes(same) ? last : undefined),
    ...options,
  });
}

/** One row by its id, whose first 48 bits are the time at which it was made (UUID version 7). */
export function useRow(id: string, own: boolean) {
  return useQuery({
    queryKey: [...usageKeys.all, "row", own, id],
    queryFn: async ({ signal }): Promise<UsageRow | null> => {
      const made = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
      if (!Number.isFinite(made) || made > 8e15) return null;
      const near = (ms: number) => new Date(made + ms).toISOString();
      const { items } = await fetchRows({ from: near(-500), to: near(501) }, own, 1000, 0, signal);
      return items.find((it) => it.id === id) ?? null;
    },
    enabled: id !== "",
    staleTime: Infinity,
  });
}

function groupsOptions(query: GroupQuery, own: boolean) {
  return {
    queryKey: [...usageKeys.all, "groups", own, query],
    queryFn: ({ signal }: { signal?: AbortSignal }) =>
      own
        ? callPage("aggregateOwnUsage", { query: ofOwn(query), signal })
        : callPage("aggregateUsage", { query, signal }),
  };
}

/** Sums by a dimension, with the number of all groups. */
export function useGroups(query: GroupQuery, own: boolean, options: { enabled?: boolean } = {}) {
  return useQuery({ ...groupsOptions(query, own), ...kept, ...options });
}

/** The most groups that one answer has. */
const MOST_GROUPS = 1000;

/** Returns every group, those with the most requests first. */
export async function fetchAllGroups(
  query: Omit<GroupQuery, "limit" | "offset">,
  own: boolean,
): Promise<Group[]> {
  const groups: Group[] = [];
  for (;;) {
    const page = { ...query, sort: "-requests", limit: MOST_GROUPS, offset: groups.length } as const;
    const { items, total } = await groupsOptions(page, own).queryFn({});
    groups.push(...items);
    if (items.length === 0 || groups.length >= total) return groups;
  }
}

function seriesOptions(filter: UsageFilter, bucket: Bucket, own: boolean) {
  return {
    queryKey: [...usageKeys.all, "series-of", own, bucket, filter],
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      own
        ? call("getOwnUsageSeries", { query: { ...ofOwn(filter), bucket }, signal })
        : call("getUsageSeries", { query: { ...filter, bucket }, signal }),
  };
}

export type Step = Answer<"getUsageSeries">[number];

/** Sums over time. */
export function useSteps(filter: UsageFilter, bucket: Bucket, own: boolean) {
  return useQuery({ ...seriesOptions(filter, bucket, own), ...kept });
}

/** Sums over time for several filters at once. */
export function useManySteps(filters: UsageFilter[], bucket: Bucket, own: boolean) {
  return useQueries({
    queries: filters.map((filter) => ({ ...seriesOptions(filter, bucket, own), ...kept })),
    combine: (results) => ({
      data: results.map((it) => it.data),
      error: results.find((it) => it.error)?.error ?? null,
    }),
  });
}

/** Percentiles of the latency; one's own have those of `useGroups` only. */
export function useLatency(filter: UsageFilter, enabled: boolean) {
  return useQuery({
    queryKey: [...usageKeys.all, "latency", filter],
    queryFn: ({ signal }) => call("getUsageLatency", { query: filter, signal }),
    enabled,
    ...kept,
  });
}

/** Percentiles of the time to the first token of streamed answers. */
export function useTtft(filter: UsageFilter, enabled: boolean) {
  return useQuery({
    queryKey: [...usageKeys.all, "ttft", filter],
    queryFn: ({ signal }) => call("getUsageTtft", { query: filter, signal }),
    enabled,
    ...kept,
  });
}

/** Whether rows and sums agree. All rows are read, so it is asked only when somebody wants to know. */
export function useIntegrity() {
  return useQuery({
    queryKey: [...usageKeys.all, "integrity"],
    queryFn: ({ signal }) => call("checkUsage", { signal }),
    enabled: false,
    retry: false,
  });
}
