import type uPlot from "uplot";

/** A line across a drawing at a value, or down it at a time in seconds, with its name. Without a name it is only the line. */
export type Line = { vertical: boolean; at: number; label: string; line: string; text: string };

/** How many names of marks stand below each other where they would cover each other. */
const ROWS = 4;
/** The height of a row of names, and the space beside a name, in CSS pixels. */
const ROW = 14;
const SPACE = 4;

/** Where the names in each row end that are drawn so far. */
type Taken = number[];

/** Returns the row in which a name has room, and takes it; `undefined` if there is none. */
export function rowFor(taken: Taken, from: number, width: number): number | undefined {
  for (let row = 0; row < ROWS; row += 1) {
    if ((taken[row] ?? -Infinity) > from) continue;
    taken[row] = from + width;
    return row;
  }
}

type Plot = Pick<uPlot, "ctx" | "bbox" | "valToPos">;
type Placed = Line & { pixel: number };

function drawLine({ ctx, bbox }: Plot, { vertical, pixel, line }: Placed): void {
  ctx.strokeStyle = line;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(vertical ? pixel : bbox.left, vertical ? bbox.top : pixel);
  ctx.lineTo(vertical ? pixel : bbox.left + bbox.width, vertical ? bbox.top + bbox.height : pixel);
  ctx.stroke();
}

/** Draws a name on a ground of its own, so that no line runs through its letters. */
function drawName(
  { ctx, bbox }: Plot,
  { vertical, pixel, label, text }: Placed,
  ground: string,
  taken: Taken,
): void {
  const [space, high] = [SPACE * devicePixelRatio, ROW * devicePixelRatio];
  const width = ctx.measureText(label).width + 2 * space;
  const right = bbox.left + bbox.width;
  // A name that would leave the chart stands left of its line.
  const left = !vertical ? right - width : pixel + width > right ? pixel - width : pixel;
  const row = vertical ? rowFor(taken, left, width) : 0;
  if (row === undefined) return;
  const top = vertical ? bbox.top + row * high : pixel - high / 2;
  ctx.fillStyle = ground;
  // The line itself stays to be seen beside the name.
  ctx.fillRect(left + devicePixelRatio, top, width - 2 * devicePixelRatio, high);
  ctx.fillStyle = text;
  ctx.fillText(label, left + space, top + high / 2);
}

/** Draws lines, and then their names above all of them. */
export function drawMarks(u: Plot, lines: Line[], ground: string): void {
  const { ctx, bbox } = u;
  const placed = lines
    .map((it): Placed => ({ ...it, pixel: Math.round(u.valToPos(it.at, it.vertical ? "x" : "y", true)) }))
    .filter(({ vertical, pixel }) => {
      const low = vertical ? bbox.left : bbox.top;
      return pixel >= low && pixel <= low + (vertical ? bbox.width : bbox.height);
    });
  ctx.save();
  for (const it of placed) drawLine(u, it);
  ctx.font = `${11 * devicePixelRatio}px "Inter Variable", sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const taken: Taken = [];
  for (const it of placed) if (it.label) drawName(u, it, ground, taken);
  ctx.restore();
}
