import { urlOf } from "./client";
import type { OperationId } from "./types";

/** Has the browser save what an operation answers, without holding it in memory. */
export function download(id: OperationId, query: Record<string, unknown>, fileName: string): void {
  const link = document.createElement("a");
  link.href = urlOf(id, { query });
  link.download = fileName;
  link.click();
}

/** Has the browser save a text that is here already. */
export function downloadText(text: string, fileName: string, type = "text/plain"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
