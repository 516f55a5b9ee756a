import type { GatewayTexts } from "@/api/gateway-de";
import type { Schema } from "@/api/types";
import { texts } from "./index";

type Pairs = GatewayTexts["diagnoses"][string];
type Diagnosis = Schema<"Diagnosis">;

const english: GatewayTexts = { settings: {}, groups: {}, allowed: {}, fields: {}, tuned: {}, diagnoses: {} };

/** The gateway's own texts in German, made from its tables. They are empty in English, which the API speaks by itself. */
export const useGatewayTexts = texts<GatewayTexts>(english, () => import("@/api/gateway-de"));

const OPTIONAL = /\[([^\]]*)\]/;
const VARIABLE = /\{(\w+)\}/;

/** Returns what matches every text that was made from a template, and the names of its groups. */
function matcherOf(template: string): [pattern: RegExp, names: string[]] {
  const names: string[] = [];
  const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const part = (text: string) =>
    text
      .split(VARIABLE)
      .map((it, index) => {
        if (index % 2 === 0) return literal(it);
        names.push(it);
        return "(.*?)";
      })
      .join("");
  const source = template
    .split(OPTIONAL)
    .map((it, index) => (index % 2 === 0 ? part(it) : `(?:${part(it)})?`))
    .join("");
  return [new RegExp(`^${source}$`, "s"), names];
}

/** Fills values into a template. An optional part is left out if one of its values is missing. */
function filled(template: string, values: ReadonlyMap<string, string | undefined>): string {
  const put = (text: string) => text.replaceAll(/\{(\w+)\}/g, (_, name: string) => values.get(name) ?? "…");
  const known = (text: string) =>
    [...text.matchAll(/\{(\w+)\}/g)].every(([, name = ""]) => values.get(name) !== undefined);
  return template
    .split(OPTIONAL)
    .map((it, index) => (index % 2 === 0 || known(it) ? put(it) : ""))
    .join("");
}

/** Says a text in German, if one of the pairs made it; else it stays as it is. The values that it names are kept. */
export function inGerman(text: string, pairs: Pairs = []): string {
  for (const [template, german] of pairs) {
    const [pattern, names] = matcherOf(template);
    const found = pattern.exec(text);
    if (found) return filled(german, new Map(names.map((name, index) => [name, found[index + 1]])));
  }
  return text;
}

/** Returns what says a diagnosis in the reader's language. */
export function useDiagnosed(): (it: Diagnosis) => Diagnosis {
  const { diagnoses } = useGatewayTexts();
  return (it) => {
    const pairs = diagnoses[it.error_type];
    if (!pairs) return it;
    return {
      ...it,
      title: inGerman(it.title, pairs),
      message: inGerman(it.message, pairs),
      fixes: it.fixes.map((fix) => ({ ...fix, text: inGerman(fix.text, pairs) })),
    };
  };
}
