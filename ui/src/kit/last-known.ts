import { useState } from "react";

/**
 * The record of an open form, as it was last seen: it is found by its name, and somebody may rename or delete it meanwhile. What
 * was typed stays, and the gateway says what became of the record. `name` is what it was opened by; empty for no form.
 */
export function useLastKnown<T>(found: T | null | undefined, name: string): T | null {
  const [known, setKnown] = useState<{ name: string; record: T } | null>(null);
  if (found && (known?.record !== found || known.name !== name)) setKnown({ name, record: found });
  return found ?? (known?.name === name ? known.record : null);
}
