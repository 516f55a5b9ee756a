import type { en } from "./en";

export const de = {
  title: "Grenzen und Budgets",
  names: {
    rpm_limit: "Anfragen je Minute",
    tpm_limit: "Tokens je Minute",
    max_concurrency: "Anfragen gleichzeitig",
    max_streams: "Ströme gleichzeitig",
    budget_tokens_day: "Tokens je Tag",
    budget_tokens_month: "Tokens je Monat",
  },
  help: "Leer heißt: keine Grenze. Eine Anfrage muss in die Grenzen ihres Schlüssels, ihres Benutzers und ihrer Organisation passen. Tage und Monate sind die der UTC.",
  used: (used: string, limit: string) => `${used} von ${limit}`,
  limitOnly: (limit: string) => `höchstens ${limit}`,
  notCounted: "nicht in Gebrauch",
  warning: "fast verbraucht",
  resetIn: (time: string) => `wieder frei in ${time}`,
  day: "Tag",
  month: "Monat",
  none: "Keine Grenzen",
  short: {
    rpm_limit: (n: string) => `${n} Anfr./min`,
    tpm_limit: (n: string) => `${n} Tok./min`,
    max_concurrency: (n: string) => `${n} zugleich`,
    max_streams: (n: string) => `${n} Ströme`,
    budget_tokens_day: (n: string) => `${n} Tok./Tag`,
    budget_tokens_month: (n: string) => `${n} Tok./Monat`,
  },
  effective: (limit: string) => `in Kraft: ${limit}`,
} satisfies typeof en;
