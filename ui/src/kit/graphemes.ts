const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Returns the characters of a text as people see them: a letter with its accents is one, and so is a family of emoji. */
export function graphemes(text: string): string[] {
  // Most names are plain, and lists have many of them.
  if (/^[\x20-\x7e]*$/.test(text)) return text.split("");
  return Array.from(segmenter.segment(text), (it) => it.segment);
}
