import { texts } from "@/i18n";
import { en } from "./en";

/** The texts of what the pages of models share. */
export const useT = texts(en, () => import("./de"));
