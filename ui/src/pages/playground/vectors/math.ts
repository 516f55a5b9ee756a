/** The length of a vector. */
export const norm = (vector: number[]): number => Math.sqrt(vector.reduce((sum, it) => sum + it * it, 0));

/** How alike two vectors are, from -1 to 1; `null` if one has no length or they differ in it. */
export function cosine(a: number[], b: number[]): number | null {
  const size = norm(a) * norm(b);
  if (size === 0 || a.length !== b.length) return null;
  return a.reduce((sum, it, at) => sum + it * (b[at] ?? 0), 0) / size;
}

/** One text a line; empty lines are none. */
export const linesOf = (text: string): string[] =>
  text
    .split("\n")
    .map((it) => it.trim())
    .filter((it) => it !== "");
