type Cell = string | number | null;

/** A spreadsheet takes a text that begins so for a formula (OWASP, "CSV Injection"); names come from clients. */
const FORMULA = /^[=+\-@\t\r\n]/;

function cellOf(value: Cell): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Writes rows as CSV (RFC 4180) below the names of their columns. Absent values are empty. */
export function csvOf(head: string[], rows: Cell[][]): string {
  return [head, ...rows].map((row) => `${row.map(cellOf).join(",")}\r\n`).join("");
}
