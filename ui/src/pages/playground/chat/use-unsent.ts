import { useCallback, useEffect, useRef, useState } from "react";
import { useMe } from "@/data/session";
import { keepPictures, picturesOf } from "./kept";

/**
 * The pictures of a question that is not sent yet, and how to change them. This browser keeps them over a reload, for each user of
 * their own.
 */
export function useUnsent(draft: string): [string[], (change: (old: string[]) => string[]) => void] {
  const key = `unsent ${useMe()?.id ?? 0}`;
  const [pictures, setPictures] = useState<string[]>([]);
  const now = useRef(pictures);
  const change = useCallback(
    (next: (old: string[]) => string[]) => {
      now.current = next(now.current);
      setPictures(now.current);
      void keepPictures(draft, key, now.current);
    },
    [draft, key],
  );
  useEffect(() => {
    let current = true;
    void picturesOf(draft, key).then((found) => {
      // What was added before the browser answered stays.
      if (current && found.length > 0) change((old) => [...found, ...old]);
    });
    return () => {
      current = false;
    };
  }, [draft, key, change]);
  return [pictures, change];
}
