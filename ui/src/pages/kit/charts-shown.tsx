import { useState } from "react";
import { BarList } from "@/charts/bar-list";
import { Histogram } from "@/charts/histogram";
import { Sparkline } from "@/charts/sparkline";
import { StackedBar } from "@/charts/stacked-bar";
import { type Pane, TimeSeries } from "@/charts/time-series";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Panel } from "@/kit/panel";
import { Gallery, Shown } from "./shown";

const BEGIN = Date.UTC(2026, 10, 23, 12);
const TIMES = Array.from({ length: 240 }, (_, index) => BEGIN + index * 15_000);
const wave = (factor: number, at: number) =>
  TIMES.map((_, index) =>
    index > 150 && index < 160 ? null : factor * (1 + Math.sin(index / at) + (index % 7) / 20),
  );
const CPU = wave(30, 20);
const [PROMPT, GENERATED] = [wave(900, 30), wave(400, 12)];
const BUCKETS = [3, 18, 64, 120, 90, 41, 22, 9, 3, 1].map((count, index) => ({
  from: 2 ** index * 10,
  to: index === 9 ? null : 2 ** (index + 1) * 10,
  count,
}));

export function ChartsShown() {
  const format = useFormat();
  const [context, setContext] = useState(8);
  const [zoom, setZoom] = useState("");
  const counts: Pane[] = [
    {
      id: "requests",
      title: "Requests a minute",
      write: format.compact,
      stacked: true,
      bars: true,
      whole: true,
      series: [
        { id: "ok", label: "Answered", values: [4, 9, 0, 12, 7, 3, 5, 8, 2, 6] },
        { id: "errors", label: "Failed", values: [0, 1, 0, 4, 0, 0, 1, 0, 0, 2], color: 4 },
      ],
    },
  ];
  const panes: Pane[] = [
    {
      id: "tokens",
      title: "Tokens per second",
      write: format.compact,
      series: [
        { id: "prompt", label: "Prompt", values: PROMPT },
        { id: "generated", label: "Generated", values: GENERATED },
      ],
    },
    {
      id: "cpu",
      title: "Processors",
      write: format.percent,
      area: true,
      max: 100,
      height: 120,
      series: [{ id: "cpu", label: "Use", values: CPU, color: 3 }],
      thresholds: [{ at: 85, label: "85 %", tone: "warn" }],
    },
  ];
  return (
    <Gallery>
      <Panel title="TimeSeries" note={zoom}>
        <TimeSeries
          label="Load of the machine"
          times={TIMES}
          panes={panes}
          marks={[
            { at: BEGIN + 20 * 60_000, label: "qwen started", tone: "ok" },
            { at: BEGIN + 40 * 60_000, label: "qwen failed", tone: "bad" },
          ]}
          onZoom={(from, to) => setZoom(`${format.time(from)} to ${format.time(to)}`)}
        />
      </Panel>
      <Panel title="TimeSeries of counts, in a range of which half has none">
        <TimeSeries
          label="Requests"
          times={TIMES.slice(0, 10).map((_, index) => BEGIN + index * 60_000)}
          span={{ from: BEGIN - 600_000, to: BEGIN + 600_000 }}
          panes={counts}
        />
      </Panel>
      <Panel title="TimeSeries without data">
        <TimeSeries
          label="Nothing"
          times={[]}
          panes={[{ id: "none", title: "None", series: [], write: String, height: 60 }]}
        />
      </Panel>
      <Shown title="StackedBar">
        <div className="w-full">
          <StackedBar
            label="Memory of GPU 0"
            total={48}
            segments={[
              { id: "weights", label: "Weights", value: 16, text: "16 GiB", color: 1 },
              { id: "kv", label: "KV cache", value: context, text: `${context} GiB`, color: 2 },
              { id: "other", label: "Other processes", value: 4, text: "4 GiB", color: "other" },
              {
                id: "free",
                label: "Free",
                value: Math.max(0, 28 - context),
                text: `${Math.max(0, 28 - context)} GiB`,
                color: "free",
              },
            ]}
          />
          <Button className="mt-3" onClick={() => setContext(context > 30 ? 4 : context * 2)}>
            More context
          </Button>
        </div>
      </Shown>
      <Panel title="Histogram">
        <Histogram
          label="TTFT"
          buckets={BUCKETS}
          write={format.duration}
          marks={[
            { at: 90, label: "p50" },
            { at: 900, label: "p95" },
          ]}
        />
      </Panel>
      <Panel title="BarList">
        <BarList
          label="Tokens by user"
          bars={[
            {
              id: "ada",
              label: "ada",
              value: 1_240_000,
              text: format.compact(1_240_000),
              onSelect: () => {},
            },
            {
              id: "grace",
              label: "grace",
              value: 620_000,
              text: format.compact(620_000),
              onSelect: () => {},
            },
            {
              id: "linus",
              label: "a user with a very long name that does not fit into the row at all",
              value: 1000,
              text: format.compact(1000),
            },
          ]}
        />
      </Panel>
      <Panel title="Sparkline">
        <Sparkline label="Requests per second" values={CPU.slice(0, 60)} />
        <Sparkline bars label="Errors" values={CPU.slice(0, 60).map((_, index) => index % 7)} />
      </Panel>
    </Gallery>
  );
}
