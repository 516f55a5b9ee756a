import type { Language } from "@/i18n/format";

/**
 * Reads a number as people write it in a language: `32,768` is a large number in English, and in German `32.768` is. What is
 * no number is `null`. A point is a decimal point in German, too, where it can't divide thousands, as in `0.9`.
 */
export function readNumber(typed: string, language: Language): number | null {
  const text = typed.trim().replaceAll(/[\u00a0\u202f ]/g, "");
  const [group, mark] = language === "de" ? [".", ","] : [",", "."];
  const whole = new RegExp(`^-?[1-9]\\d{0,2}(?:\\${group}\\d{3})+(?=$|\\${mark})`);
  const plain = whole.test(text) ? text.replaceAll(group, "") : text;
  const number = language === "de" ? plain.replace(",", ".") : plain;
  return /^-?\d*\.?\d+(?:e[+-]?\d+)?$/i.test(number) ? Number(number) : null;
}
