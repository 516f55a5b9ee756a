import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { callPage } from "@/api/client";
import type { Item, Query } from "@/api/types";
import { auditKeys } from "./query-keys";

export type AuditRow = Item<"listAuditLog">;
export type AuditFilter = Omit<NonNullable<Query<"listAuditLog">>, "limit" | "offset">;

/** How many rows come with one request. */
const PAGE = 200;

/** The rows that match, newest first, as far as they were asked for. */
export function useAuditLog(filter: AuditFilter) {
  return useInfiniteQuery({
    queryKey: [...auditKeys.all, "rows", filter],
    queryFn: ({ signal, pageParam }) =>
      callPage("listAuditLog", { query: { ...filter, limit: PAGE, offset: pageParam }, signal }),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => {
      const loaded = pages.reduce((sum, it) => sum + it.items.length, 0);
      return last.items.length > 0 && loaded < last.total ? loaded : undefined;
    },
    // Rows that came meanwhile shift the later pages: one that is there twice is shown once.
    select: ({ pages }) => ({
      rows: [...new Map(pages.flatMap((it) => it.items).map((it) => [it.seq, it])).values()],
      total: pages[0]?.total ?? 0,
    }),
    staleTime: Infinity,
    placeholderData: keepPreviousData,
  });
}

/** The number of all rows that match, asked for again and again: no event says that there is a new one. */
export function useAuditTotal(filter: AuditFilter) {
  return useQuery({
    queryKey: [...auditKeys.all, "total", filter],
    queryFn: async ({ signal }) =>
      (await callPage("listAuditLog", { query: { ...filter, limit: 1 }, signal })).total,
    refetchInterval: 5000,
  });
}
