import { texts } from "@/i18n";
import { en } from "./en";

/** The words of limits and budgets. */
export const useT = texts(en, () => import("./de"));
