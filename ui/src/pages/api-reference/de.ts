import type { en } from "./en";

export const de = {} satisfies typeof en;
