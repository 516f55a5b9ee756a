import { texts } from "@/i18n";
import { en } from "./en";

/** The texts of what the pages of models share. */
export const useT = texts(en, () => import("./de"));

/** What people call an engine that the API names; one that this version does not know is shown as it is. */
export function engineName(engine: string | null | undefined, t: ReturnType<typeof useT>): string {
  const names: Record<string, string> = t.engine;
  return engine ? (names[engine] ?? engine) : "–";
}
