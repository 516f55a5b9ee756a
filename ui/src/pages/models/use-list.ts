import { useMemo } from "react";
import { useModels } from "@/data/models";
import { useRegistry } from "@/data/registry";
import { useUpstreams } from "@/data/upstreams";
import { usePage } from "@/kit/pager";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { pick, type Row, rowsOf, stateOf } from "./rows";

const PAGE = 100;
/** Up to this number of failed models each shows by itself why it failed; more would fill the page. */
const FAILED_OPEN = 3;

const wordsOf = (text: string | undefined) => (text ?? "").split(",").filter(Boolean);

/** The list as the address says: what is filtered, sorted, on which page, and which rows are open. */
export function useList() {
  const url = useUrl();
  const change = useSetUrl();
  const { q = "", state = "", sort = "", open, shut } = url;
  const archived = url.archived === "1";
  const models = useModels({ archived });
  const registry = useRegistry();
  const upstreams = useUpstreams();
  const rows = useMemo(
    () => models.data && rowsOf(models.data, registry.data ?? [], upstreams.data ?? []),
    [models.data, registry.data, upstreams.data],
  );
  const found = useMemo(
    () => rows && pick(rows, { q, states: wordsOf(state), sort }),
    [rows, q, state, sort],
  );
  const at = usePage(JSON.stringify([q, state, archived]), PAGE);
  const [opened, closed] = [wordsOf(open), wordsOf(shut)];
  const failed = rows?.filter((it) => stateOf(it) === "failed").length ?? 0;
  // What starts or has failed is open by itself, until somebody closes it.
  const asks = (row: Row) => {
    const state = stateOf(row);
    return state === "starting" || state === "loading" || (state === "failed" && failed <= FAILED_OPEN);
  };
  const isOpen = (row: Row) => (asks(row) ? !closed.includes(row.key) : opened.includes(row.key));
  const toggle = (row: Row) => {
    const flip = (list: string[]) =>
      (list.includes(row.key) ? list.filter((it) => it !== row.key) : [...list, row.key]).join(",");
    change(asks(row) ? { shut: flip(closed) } : { open: flip(opened) });
  };
  return {
    models,
    rows,
    found,
    shown: found?.slice(at.offset, at.offset + PAGE),
    at,
    archived,
    setArchived: (to: boolean) => change({ archived: to ? "1" : undefined }),
    filtered: q !== "" || state !== "",
    clear: () => change({ q: undefined, state: undefined }),
    isOpen,
    toggle,
  };
}
