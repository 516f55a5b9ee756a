import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  markdown,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** A piece of code in one colour. */
export type Run = { text: string; style: string };

// Colours that are tested as text on every background; one for each kind of word.
const STYLES: Record<string, string> = {
  addition: "text-ok",
  attr: "text-accent-text",
  attribute: "text-accent-text",
  built_in: "text-accent-text",
  comment: "text-ink-3 italic",
  deletion: "text-bad",
  doctag: "text-ink-3",
  keyword: "text-busy",
  literal: "text-warn",
  meta: "text-ink-3",
  name: "text-busy",
  number: "text-warn",
  quote: "text-ink-3",
  regexp: "text-ok",
  section: "font-semibold",
  "selector-class": "text-accent-text",
  "selector-tag": "text-busy",
  string: "text-ok",
  symbol: "text-warn",
  tag: "text-busy",
  title: "text-accent-text",
  type: "text-accent-text",
  variable: "text-bad",
};

const ENTITIES: Record<string, string> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#x27;": "'",
};

/** Reads the highlighter's markup, which has only spans and five entities, into pieces of text: no markup reaches the page. */
export function runsOf(markup: string): Run[] {
  const runs: Run[] = [];
  const open: string[] = [];
  for (const [piece] of markup.matchAll(/<span class="[^"]*">|<\/span>|[^<]+/g)) {
    if (piece === "</span>") open.pop();
    else if (piece.startsWith("<span")) {
      const kind = /hljs-([\w-]+)/.exec(piece)?.[1] ?? "";
      open.push(STYLES[kind] ?? open.at(-1) ?? "");
    } else {
      const text = piece.replace(/&(?:amp|lt|gt|quot|#x27);/g, (it) => ENTITIES[it] ?? it);
      runs.push({ text, style: open.at(-1) ?? "" });
    }
  }
  return runs;
}

/** Colours code; `undefined` if the language is not known. */
export function highlight(text: string, language: string): Run[] | undefined {
  if (!hljs.getLanguage(language)) return undefined;
  return runsOf(hljs.highlight(text, { language, ignoreIllegals: true }).value);
}
