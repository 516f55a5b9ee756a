let title = "";
const listeners = new Set<() => void>();

/** Says what the present page is called. */
export function setPageTitle(to: string): void {
  title = to;
  for (const listener of listeners) listener();
}

export function pageTitle(): string {
  return title;
}

export function onPageTitle(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
