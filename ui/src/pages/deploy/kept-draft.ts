import { keep, kept } from "@/kit/kept";
import { secretsOf, withoutSecrets } from "@/parts/models/settings";
import { type Draft, isDraft } from "./draft";

/** What a tab keeps of a form: what was typed, and what the form began with. */
type Kept = { first: Draft; draft: Draft };

const nameOf = (place: string) => `new ${place}`;

/** A draft without its secrets, which are not written anywhere. */
const plain = (it: Draft): Draft => ({ ...it, token: "", settings: withoutSecrets(it.settings) });

/** Returns what was typed at this address before a reload; `null` where the form begins with something else now. */
export function keptDraft(place: string, first: Draft): Draft | null {
  const it = kept(nameOf(place)) as Partial<Kept> | null;
  if (!isDraft(it?.draft) || JSON.stringify(it.first) !== JSON.stringify(plain(first))) return null;
  return { ...it.draft, settings: { ...secretsOf(first.settings), ...it.draft.settings } };
}

/** Keeps what was typed for this tab, until it is saved. */
export function keepDraft(place: string, first: Draft, draft: Draft): void {
  const it: Kept = { first: plain(first), draft: plain(draft) };
  keep(nameOf(place), JSON.stringify(it.draft) === JSON.stringify(it.first) ? null : it);
}

export function forgetDraft(place: string): void {
  keep(nameOf(place), null);
}
