/** What stands behind `?` is words only, so that addresses are readable and can be written by hand. */
export type Words = Record<string, string | undefined>;

export function parseSearch(text: string): Words {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(words: Record<string, unknown>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  }
  // Readable where the standard lets it be.
  const text = search.toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%2F", "/");
  return text ? `?${text}` : "";
}
