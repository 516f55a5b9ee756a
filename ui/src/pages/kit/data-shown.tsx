import { Boxes, ScrollText, Square } from "lucide-react";
import { ApiError, NetworkError } from "@/api/errors";
import { useT } from "@/i18n";
import { Badge, StateBadge, type StateWord } from "@/kit/badge";
import { Meter, Progress } from "@/kit/bars";
import { Button, IconButton } from "@/kit/button";
import { CodeBlock, Command } from "@/kit/code-block";
import { EmptyState } from "@/kit/empty-state";
import { ErrorNote, ErrorState } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Link } from "@/kit/link";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { type Column, Table } from "@/kit/table";
import { Fact, Kbd, Middle, RelativeTime } from "@/kit/text";
import { Gallery, Shown } from "./shown";

type Row = { id: number; name: string; state: StateWord; tokens: number };
const STATES: StateWord[] = ["running", "loading", "failed", "stopped", "warning"];
const rows = (count: number): Row[] =>
  Array.from({ length: count }, (_, id) => ({
    id,
    name: id % 4 ? `model-${id}` : `organisation/a-very-long-name-of-a-model-${id}-Q4_K_M-imatrix.gguf`,
    state: STATES[id % 5] ?? "unknown",
    tokens: id * 7919,
  }));
const SHORT = rows(5);
const LONG = rows(10_000);
const BROKEN = new ApiError(503, {
  code: "database_unavailable",
  message: "the database does not answer",
  requestId: "01900000-0000-7000-8000-000000000003",
});

const columns: Column<Row>[] = [
  {
    id: "name",
    head: "Name",
    sort: "name",
    width: "40%",
    cell: (it) => (
      <Link to="/kit">
        <Middle text={it.name} className="max-w-64" />
      </Link>
    ),
  },
  { id: "state", head: "State", width: "30%", cell: (it) => <StateBadge state={it.state} /> },
  { id: "tokens", head: "Tokens", numeric: true, sort: "tokens", width: "30%", cell: (it) => it.tokens },
];
const actions = () => (
  <>
    <IconButton icon={Square} label="Stop" size="sm" />
    <IconButton icon={ScrollText} label="Logs" size="sm" />
  </>
);

function Tables() {
  const list = (data: Row[] | undefined, error: unknown = null) => ({ data, error, refetch: () => {} });
  return (
    <>
      <Panel title="Table" note="with actions and an opened row" flush>
        <Table
          label="Models"
          columns={columns}
          list={list(SHORT)}
          rowKey={(it) => it.id}
          actions={actions}
          expanded={(it) => it.id === 1 && "An opened row."}
        />
      </Panel>
      <Panel title="Table of 10,000 rows" flush>
        <Table
          label="Many models"
          columns={columns}
          list={list(LONG)}
          rowKey={(it) => it.id}
          actions={actions}
          virtualHeight={240}
        />
      </Panel>
      <Panel title="Loading" flush>
        <Table label="Loading" columns={columns} list={list(undefined)} rowKey={(it) => it.id} />
      </Panel>
      <Panel title="Empty" flush>
        <Table
          label="Empty"
          columns={columns}
          list={list([])}
          rowKey={(it) => it.id}
          empty={
            <EmptyState
              icon={Boxes}
              title="No model yet."
              action={<Button look="primary">Add a model</Button>}
              command="gantry models create --path qwen.gguf"
            />
          }
        />
      </Panel>
      <Panel title="Failed" flush>
        <Table label="Failed" columns={columns} list={list(undefined, BROKEN)} rowKey={(it) => it.id} />
      </Panel>
    </>
  );
}

export function DataShown() {
  const t = useT();
  const words = Object.keys(t.state) as StateWord[];
  return (
    <Gallery>
      <Shown title="StateBadge, Badge">
        {words.map((state) => (
          <StateBadge key={state} state={state} />
        ))}
        <StateBadge state="loading">Loading 42 %</StateBadge>
        <Badge>idle</Badge>
        <Badge tone="warn" size="md">
          medium
        </Badge>
      </Shown>
      <Shown title="Progress, Meter, Skeleton">
        <div className="grid w-full gap-4 md:grid-cols-3">
          <Progress label="Loading weights" value={0.42} text="3.1 of 8 GiB" />
          <Progress label="Working" value={null} text="unknown" />
          <Progress label="Failed" value={1} tone="bad" thin />
          <Meter label="Memory" value={0.4} text="12 of 32 GiB" />
          <Meter label="Disk" value={0.9} text="900 of 1000 GB" />
          <Meter label="Budget" value={0.99} text="99 %" />
          <Meter label="Unknown" value={null} text="–" />
          <Skeleton className="h-8" />
        </div>
      </Shown>
      <Shown title="Fact, Facts, RelativeTime, Middle, Kbd">
        <Fact label="Requests" value="7.75/s" note="3 in flight" />
        <div className="w-80">
          <Facts
            facts={[
              ["Served name", "qwen"],
              ["Started", <RelativeTime key="t" at={Date.now() - 3_700_000} />],
              ["Never", <RelativeTime key="n" at={null} />],
            ]}
          />
        </div>
        <div className="w-48">
          <Middle text="organisation/a-very-long-name-of-a-model-Q4_K_M.gguf" />
        </div>
        <Kbd>Ctrl K</Kbd>
      </Shown>
      <Shown title="CodeBlock, Command">
        <div className="grid w-full grid-cols-[minmax(0,1fr)] gap-4 md:grid-cols-2">
          <CodeBlock
            label="Language"
            snippets={[
              {
                id: "curl",
                label: "curl",
                code: "curl http://127.0.0.1:8084/v1/models \\\n  -H 'Authorization: Bearer gty_…'",
              },
              {
                id: "python",
                label: "Python",
                code: "from openai import OpenAI\nclient = OpenAI(base_url=…)",
              },
            ]}
          />
          <div>
            <Command code="gantry models create --path qwen3-8b-q4_k_m.gguf --served-name qwen --start --wait" />
          </div>
        </div>
      </Shown>
      <Tables />
      <Shown title="ErrorState, ErrorNote">
        <div className="grid w-full grid-cols-[minmax(0,1fr)] gap-4 md:grid-cols-2">
          <ErrorState error={new NetworkError("Failed to fetch")} onRetry={() => {}} />
          <div>
            <ErrorNote error={BROKEN} />
          </div>
        </div>
      </Shown>
    </Gallery>
  );
}
