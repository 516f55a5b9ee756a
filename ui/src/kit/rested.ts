import { useEffect, useState } from "react";

/** A value once it has rested: what is typed letter by letter is asked about once. Values are compared by what is in them. */
export function useRested<T>(value: T, ms = 300): T {
  const [rested, set] = useState(value);
  const key = JSON.stringify(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` is the value
  useEffect(() => {
    const timer = setTimeout(() => set(value), ms);
    return () => clearTimeout(timer);
  }, [key, ms]);
  return rested;
}
