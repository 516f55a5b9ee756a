import "uplot/dist/uPlot.min.css";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { useFormat, useT } from "@/i18n";
import { Legend } from "./legend";
import { drawnTimes, drawnValues, optionsOf, useColors } from "./plot-options";
import type { Pane, TimeSeriesProps } from "./time-series";

type Props = TimeSeriesProps & { only: string | null; onOnly: (id: string | null) => void };

/** Bars with some air between them; where there are few, they stay bars. */
const BARS = uPlot.paths.bars?.({ size: [0.85, 64] });

/** The panes of a `TimeSeries`, drawn by uPlot; it is loaded by it. */
export default function Plots({ times, span, panes, marks, onZoom, only, onOnly }: Props) {
  const [at, setAt] = useState<number | null>(null);
  const sync = useRef(`gantry-${Math.random().toString(36).slice(2)}`);
  return (
    <div className="flex flex-col gap-3">
      {panes.map((pane, index) => (
        <div key={pane.id}>
          <Legend
            pane={pane}
            at={at}
            only={only}
            onOnly={onOnly}
            time={at === null ? undefined : times[at]}
          />
          <Plot
            first={index === 0}
            pane={pane}
            times={times}
            span={span}
            marks={marks}
            onZoom={onZoom}
            only={only}
            sync={sync.current}
            onCursor={setAt}
          />
        </div>
      ))}
    </div>
  );
}

type PlotProps = Pick<Props, "times" | "span" | "marks" | "onZoom" | "only"> & {
  first: boolean;
  pane: Pane;
  sync: string;
  onCursor: (at: number | null) => void;
};

function Plot({ first, pane, times, span, marks, onZoom, only, sync, onCursor }: PlotProps) {
  const t = useT();
  const format = useFormat();
  const colors = useColors();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ first, pane, times, span, marks, onZoom, onCursor });
  latest.current = { first, pane, times, span, marks, onZoom, onCursor };
  const shape = [pane.bars, ...pane.series.map((it) => `${it.id} ${it.label} ${it.color}`)].join("\n");
  const [from, to] = [span?.from, span?.to];

  // biome-ignore lint/correctness/useExhaustiveDependencies: a plot is made anew only if its form changes; values go in below
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const options = optionsOf({ latest, colors, format, sync, width: element.clientWidth, bars: BARS });
    const made = new uPlot(options, [[], ...pane.series.map(() => [])], element);
    plot.current = made;
    const resize = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: pane.height ?? 160 }),
    );
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
    };
  }, [shape, colors, format, sync, pane.height]);

  useEffect(() => {
    // Made anew by the effect above, `plot` has no data yet.
    void [shape, colors, format];
    const chosen = from === undefined || to === undefined ? undefined : { from, to };
    plot.current?.setData([drawnTimes(pane, times, chosen), ...drawnValues(pane, only)]);
  }, [times, pane, only, from, to, shape, colors, format]);

  useEffect(() => {
    void [shape, colors, format];
    for (const [index, it] of pane.series.entries()) {
      plot.current?.setSeries(index + 1, { show: only === null || only === it.id });
    }
  }, [only, pane, shape, colors, format]);

  return (
    <div
      ref={box}
      aria-hidden
      title={onZoom && t.chart.zoom}
      className="w-full"
      style={{ height: pane.height ?? 160 }}
    />
  );
}
