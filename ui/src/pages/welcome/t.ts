import { texts } from "@/i18n";
import { en } from "./en";

/** The texts of this page. */
export const useT = texts(en, () => import("./de"));
