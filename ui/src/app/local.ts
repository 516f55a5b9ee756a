import { useCallback, useState } from "react";
import { useMe } from "@/data/session";
import { placeOf } from "@/kit/kept";

function read<T>(key: string, fallback: T): T {
  try {
    const text = localStorage.getItem(key);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

/** State that this browser keeps over a reload, for each user of their own, until they sign out. */
export function useLocal<T>(name: string, fallback: T): [T, (to: T) => void] {
  const key = placeOf(useMe()?.id ?? 0) + name;
  const [held, hold] = useState(() => ({ key, value: read(key, fallback) }));
  // Another chat has another draft.
  if (held.key !== key) hold({ key, value: read(key, fallback) });
  const set = useCallback(
    (value: T) => {
      hold({ key, value });
      try {
        if (value === fallback) localStorage.removeItem(key);
        else localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // It is too long, or this browser keeps nothing: it lasts until the page is left.
      }
    },
    [key, fallback],
  );
  return [held.key === key ? held.value : read(key, fallback), set];
}
