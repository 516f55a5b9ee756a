import { useMemo } from "react";
import type { Answer } from "@/api/types";
import { type Mark, type Pane, TimeSeries } from "@/charts/time-series";
import { useModels } from "@/data/models";
import { useGpuCourse, useModelMarks, useTrends } from "@/data/trends";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Segmented } from "@/kit/choices";
import { ErrorState } from "@/kit/error-state";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { courseOf, gpuCourse } from "./course";
import type { Host } from "./now";
import { useT } from "./t";

const HEIGHT = 120;
const MINUTES = ["5", "15", "60", "360", "1440"] as const;
const DISK_WARN = 90;
const TONES = { running: "ok", stopped: "busy", failed: "bad" } as const;

/** The range that the address names, and the part of it that was dragged over. */
function useSpan() {
  const url = useUrl();
  const minutes = MINUTES.find((it) => it === url.minutes) ?? "60";
  const [from, to] = [Date.parse(url.from ?? ""), Date.parse(url.to ?? "")];
  return { minutes, zoom: from < to ? { from, to } : undefined };
}

/** The course of the host, all figures under one crosshair, with what models did. */
export function Trends({ host }: { host: Host | undefined }) {
  const t = useT();
  const format = useFormat();
  const setUrl = useSetUrl();
  const { minutes, zoom } = useSpan();
  const trends = useTrends(Number(minutes));
  const { data: models = [] } = useModels();
  const marks = useModelMarks(models);
  const panes = usePanes(trends.data, zoom, host);
  const newest = panes?.times.at(-1) ?? 0;
  const span = zoom ?? { from: newest - Number(minutes) * 60_000, to: newest };
  const shown: Mark[] = marks
    .filter((it) => it.at >= span.from && it.at <= span.to)
    .map((it) => ({
      at: it.at,
      label: `${it.model} ${t.marks[it.to as keyof typeof TONES]}`,
      tone: TONES[it.to as keyof typeof TONES],
    }));
  return (
    <Panel
      title={t.trends}
      note={trends.data && t.every(format.integer(trends.data.interval_sec))}
      actions={
        <>
          {zoom && (
            <Button size="sm" look="quiet" onClick={() => setUrl({ from: undefined, to: undefined })}>
              {t.zoomed}
            </Button>
          )}
          <Segmented
            label={t.range}
            value={minutes}
            onValue={(to) =>
              setUrl({ minutes: to === "60" ? undefined : to, from: undefined, to: undefined })
            }
            options={MINUTES.map((value) => ({ value, label: t.ranges[value] }))}
          />
        </>
      }
    >
      {trends.error && !trends.data ? (
        <ErrorState error={trends.error} onRetry={trends.refetch} />
      ) : !panes ? (
        <Skeleton className="h-[608px]" />
      ) : (
        <TimeSeries
          label={t.trends}
          times={panes.times}
          span={span}
          panes={panes.panes}
          marks={shown}
          onZoom={(from, to) =>
            setUrl({ from: new Date(from).toISOString(), to: new Date(to).toISOString() }, { push: true })
          }
        />
      )}
      <GpuCourse />
    </Panel>
  );
}

type GpuTrends = Answer<"getHostTrends">["gpu"][string];
type Span = { from: number; to: number } | undefined;

function usePanes(data: ReturnType<typeof useTrends>["data"], zoom: Span, host: Host | undefined) {
  const t = useT();
  const format = useFormat();
  const total = host?.mem_total_mb ?? undefined;
  const gpuTotal = Math.max(0, ...(host?.gpus.map((it) => it.mem_total_mb ?? 0) ?? []));
  const [from, to] = [zoom?.from, zoom?.to];
  return useMemo(() => {
    if (!data) return;
    const course = courseOf(data, from, to);
    const percent = (value: number) => format.percent(Math.round(value));
    const gpus = Object.entries(data.gpu);
    const ofGpus = (points: (it: GpuTrends) => GpuTrends["util_pct"]) =>
      gpus.map(([index, it]) => ({ id: index, label: t.gpu(index), values: course.of(points(it)) }));
    const panes: Pane[] = [
      {
        id: "cpu",
        title: t.cpu,
        series: [{ id: "cpu", label: t.cpuUse, values: course.of(data.cpu_util_pct) }],
        write: percent,
        max: 100,
        area: true,
        height: HEIGHT,
      },
      {
        id: "memory",
        title: t.memory,
        series: [{ id: "memory", label: t.ramUsed, values: course.of(data.mem_used_mb), color: 3 }],
        write: format.mebibytes,
        binary: true,
        max: total,
        area: true,
        height: HEIGHT,
      },
      {
        id: "disk",
        title: t.disk,
        series: [{ id: "disk", label: t.diskUsed, values: course.of(data.disk_used_pct), color: 5 }],
        write: percent,
        max: 100,
        thresholds: [{ at: DISK_WARN, label: t.threshold(percent(DISK_WARN)), tone: "warn" }],
        height: HEIGHT,
      },
      {
        id: "network",
        title: t.network,
        series: [
          { id: "rx", label: t.received, values: course.of(data.net_rx_bps), color: 1 },
          { id: "tx", label: t.sent, values: course.of(data.net_tx_bps), color: 2 },
        ],
        write: format.byteRate,
        height: HEIGHT,
      },
    ];
    if (gpus.length > 0)
      panes.push(
        {
          id: "gpu",
          title: t.gpuUse,
          series: ofGpus((it) => it.util_pct),
          write: percent,
          max: 100,
          height: HEIGHT,
        },
        {
          id: "gpu-memory",
          title: t.gpuMemory,
          series: ofGpus((it) => it.mem_used_mb),
          write: format.mebibytes,
          binary: true,
          max: gpuTotal || undefined,
          height: HEIGHT,
        },
      );
    return { times: course.times, panes };
  }, [data, from, to, total, gpuTotal, t, format]);
}

/** Temperature and power of the GPUs, as far as this page has seen them. */
function GpuCourse() {
  const t = useT();
  const format = useFormat();
  const { data: samples } = useGpuCourse(true);
  const panes = useMemo(() => {
    if (!samples) return [];
    const named = (all: ReturnType<typeof gpuCourse>) =>
      all.map(({ index, values }) => ({ id: String(index), label: t.gpu(String(index)), values }));
    const temperature = named(gpuCourse(samples, (it) => it.temperature_c));
    const power = named(gpuCourse(samples, (it) => it.power_w));
    const made: Pane[] = [
      {
        id: "temperature",
        title: t.gpuTemperature,
        series: temperature,
        write: (it) => `${format.integer(it)}\u202f°C`,
        height: HEIGHT,
      },
      {
        id: "power",
        title: t.gpuPower,
        series: power,
        write: (it) => `${format.integer(it)}\u202fW`,
        height: HEIGHT,
      },
    ];
    return made.filter((it) => it.series.length > 0);
  }, [samples, t, format]);
  if (!samples || panes.length === 0) return null;
  return (
    <div className="mt-4 border-line border-t pt-4">
      <p className="mb-2 text-ink-3 text-sm">{t.courseNote}</p>
      <TimeSeries
        label={`${t.gpuTemperature}, ${t.gpuPower}`}
        times={samples.map((it) => it.at)}
        panes={panes}
      />
    </div>
  );
}
