import {
  createContext,
  type ReactNode,
  use,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useState,
  useTransition,
} from "react";
import { fetchPart } from "@/api/part";
import { en } from "./en";
import { type Format, type Language, makeFormat } from "./format";

const KEPT = "gantry.language";

function firstLanguage(): Language {
  try {
    const kept = localStorage.getItem(KEPT);
    if (kept === "en" || kept === "de") return kept;
  } catch {
    // A browser that keeps nothing gets its own language.
  }
  return navigator.language.toLowerCase().startsWith("de") ? "de" : "en";
}

type Held = { language: Language; format: Format; setLanguage: (to: Language) => void };
const Context = createContext<Held>({ language: "en", format: makeFormat("en"), setLanguage() {} });

/** Holds the language of the interface; a change shows once its texts are here. */
export function LanguageProvider({ children, initial }: { children: ReactNode; initial?: Language }) {
  const [language, set] = useState(initial ?? firstLanguage);
  const [, startTransition] = useTransition();
  const setLanguage = useCallback((to: Language) => {
    try {
      localStorage.setItem(KEPT, to);
    } catch {
      // It lasts until the page is left, then.
    }
    startTransition(() => set(to));
  }, []);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const held = useMemo(
    () => ({ language, format: makeFormat(language), setLanguage }),
    [language, setLanguage],
  );
  return <Context value={held}>{children}</Context>;
}

/** The language, and how to change it. */
export function useLanguage(): Held {
  return useContext(Context);
}

/** The functions that write numbers, sizes and times in the present language. */
export function useFormat(): Format {
  return useContext(Context).format;
}

/**
 * Makes the hook that gives a part's texts: `export const useT = texts(en, () => import("./de"))`. The German ones must have
 * exactly the form of the English ones, and are loaded when they are needed; the component waits for them.
 */
export function texts<T extends object>(english: T, load: () => Promise<{ de: NoInfer<T> }>): () => T {
  let german: Promise<T> | undefined;
  // biome-ignore lint/correctness/noComponentHookFactories: it is called once for a part, outside of components
  return function useTexts() {
    const { language } = useContext(Context);
    if (language === "en") return english;
    // Read with `use` in every render: React tells a promise that is done from one that is not.
    german ??= fetchPart(load).then(
      ({ de }) => de,
      () => {
        // English until the next try.
        setTimeout(() => {
          german = undefined;
        }, 10_000);
        return english;
      },
    );
    return use(german);
  };
}

/** The texts that all parts share: buttons, states, the shell, errors. */
export const useT = texts(en, () => import("./de"));
export type Dictionary = typeof en;
