type SparklineProps = {
  /** The newest is the last; `null` is a gap. */
  values: (number | null)[];
  /** What it shows, and its newest value: "Requests per second: 7.8". */
  label: string;
  height?: number;
  /** The largest value of the scale; without it, that of the values. */
  max?: number;
  /** Counts of a step each: bars instead of a line. */
  bars?: boolean;
};

/** Returns the parts of a line with gaps, as SVG paths in a box of 100 × `height`. */
export function linePath(values: (number | null)[], height: number, max: number): string {
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  let path = "";
  let down = false;
  values.forEach((value, index) => {
    if (value === null) {
      down = false;
      return;
    }
    const y = height - 1 - (max > 0 ? Math.min(1, value / max) : 0) * (height - 2);
    path += `${down ? "L" : "M"}${(index * step).toFixed(2)} ${y.toFixed(2)}`;
    down = true;
  });
  return path;
}

/** Returns bars from the ground up, as one SVG path in a box of 100 × `height`. */
export function barsPath(values: (number | null)[], height: number, max: number): string {
  const step = 100 / Math.max(1, values.length);
  return values
    .map((value, index) => {
      if (!value || max <= 0) return "";
      const high = Math.max(1, Math.min(1, value / max) * (height - 2));
      return `M${(index * step).toFixed(2)} ${height - 1}v${(-high).toFixed(2)}h${(step * 0.85).toFixed(2)}v${high.toFixed(2)}z`;
    })
    .join("");
}

/** The course of one number, without axes. The number itself must stand beside it. */
export function Sparkline({ values, label, height = 32, max, bars = false }: SparklineProps) {
  const top = max ?? Math.max(0, ...values.map((it) => it ?? 0));
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      className="w-full"
      style={{ height }}
    >
      <path d={`M0 ${height - 0.5}H100`} className="stroke-line" vectorEffect="non-scaling-stroke" />
      {bars ? (
        <path d={barsPath(values, height, top)} className="fill-series-1" />
      ) : (
        <path
          d={linePath(values, height, top)}
          fill="none"
          className="stroke-series-1"
          strokeWidth="1.5"
          vectorEffect="non-scaling-stroke"
          strokeLinejoin="round"
        />
      )}
    </svg>
  );
}
