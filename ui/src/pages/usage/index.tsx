import { Download } from "lucide-react";
import { useMemo, useState } from "react";
import type { UsageRow } from "@/api/types";
import { Gate } from "@/app/gate";
import { useMay } from "@/data/session";
import { useRow, useRowCount, useRowPages } from "@/data/usage-explore";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { DateRangePicker } from "@/kit/date-range";
import { PageBody, PageHeader } from "@/kit/page-header";
import { Cards } from "./cards";
import { CsvDialog } from "./csv";
import { type Usage, useUsageFilter } from "./filter";
import { Filters } from "./filters";
import { Groups } from "./groups";
import { Integrity } from "./integrity";
import { RequestDrawer } from "./request-drawer";
import { Rows } from "./rows";
import { OverTime } from "./series";
import { useT } from "./t";
import { TtftSpread } from "./ttft";

export default function Page() {
  const c = useCommonT();
  return (
    <Gate needs="listOwnUsage" title={c.page.usage}>
      <UsagePage />
    </Gate>
  );
}

/**
 * The rows as they were when the filters were chosen: the list must not move while somebody reads it. `newer` is how many rows
 * were stored since. A row is stored shortly after its time, so it can be newer than the list and lie within its range.
 */
function usePinnedRows(usage: Usage) {
  const { range, own, until } = usage;
  const { from } = usage.now;
  const filter = { ...usage.filter, req_id: usage.url.req_id?.trim() };
  const wanted = JSON.stringify([filter, range, own]);
  const [chosen, setPinned] = useState({ wanted, from, to: until });
  const pin = () => setPinned({ wanted, from, to: until });
  const pinned = chosen.wanted === wanted ? chosen : { wanted, from, to: until };
  if (pinned !== chosen) setPinned(pinned);
  const pages = useRowPages({ ...filter, from: pinned.from, to: pinned.to }, own);
  const live = useRowCount({ ...filter, from: pinned.from, to: until }, own, { enabled: pinned.to < until });
  const data = useMemo(() => {
    const seen = new Map<string, UsageRow>();
    for (const page of pages.data?.pages ?? []) for (const row of page.items) seen.set(row.id, row);
    return pages.data ? [...seen.values()] : undefined;
  }, [pages.data]);
  const total = pages.data?.pages[0]?.total;
  const newer = Math.max(0, (live.data ?? 0) - (total ?? Infinity));
  return { pages, data, total, newer: pinned.to < until ? newer : 0, pin };
}

function UsagePage() {
  const t = useT();
  const c = useCommonT();
  const may = useMay();
  const usage = useUsageFilter();
  const { own, url, setUrl } = usage;
  const { pages, data, total, newer, pin } = usePinnedRows(usage);
  const known = data?.find((it) => it.id === url.request);
  const fetched = useRow(known ? "" : (url.request ?? ""), own);
  return (
    <>
      <PageHeader
        title={c.page.usage}
        actions={
          <>
            {(own || may("exportUsage")) && (
              <Button icon={Download} onClick={() => setUrl({ dialog: "csv" })}>
                {t.csv.action}
              </Button>
            )}
            <DateRangePicker />
          </>
        }
      />
      <PageBody>
        <Filters usage={usage} />
        <Cards usage={usage} />
        <div className="grid gap-4 xl:grid-cols-3">
          <OverTime usage={usage} />
          <TtftSpread usage={usage} rows={data} rowsError={pages.error} />
        </div>
        <Groups usage={usage} />
        <Rows
          list={{ data, error: pages.error, refetch: pages.refetch }}
          total={total}
          newer={newer}
          onNewer={pin}
          onMore={pages.hasNextPage ? () => void pages.fetchNextPage() : undefined}
          loading={pages.isFetchingNextPage}
          onOpen={(row) => setUrl({ request: row.id }, { push: true })}
        />
        {may("checkUsage") && !own && <Integrity />}
      </PageBody>
      {url.request && (
        <RequestDrawer
          found={known ? { ...fetched, data: known, error: null } : fetched}
          usage={usage}
          onClose={() => setUrl({ request: undefined })}
        />
      )}
      {url.dialog === "csv" && <CsvDialog usage={usage} onClose={() => setUrl({ dialog: undefined })} />}
    </>
  );
}
