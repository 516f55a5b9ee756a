/** A word that a sentence may begin with. Names of files, programs and settings stay as they are. */
const WORD = /^\p{Ll}[\p{Ll}'’-]*[,:;.!?]?(?=\s|$)/u;

/** Begins a text with a capital, unless it begins with a name. */
export const capitalised = (text: string): string =>
  WORD.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;

/** Makes a sentence of a part of one, as the gateway writes them. */
export function sentence(text: string): string {
  const first = capitalised(text);
  return /[.:!?]$/.test(first) ? first : `${first}.`;
}
