import { type Draft, isDraft } from "./draft";

const keyOf = (place: string) => `gantry.draft ${place}`;

/** What a tab keeps of a form: what was typed, and what the form began with. */
type Kept = { first: Draft; draft: Draft };

/** Returns what was typed at this address before a reload; `null` where the form begins with something else now. */
export function keptDraft(place: string, first: Draft): Draft | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(keyOf(place)) ?? "null") as Partial<Kept> | null;
    if (!isDraft(kept?.draft) || JSON.stringify(kept.first) !== JSON.stringify(first)) return null;
    return kept.draft;
  } catch {
    return null;
  }
}

/** Keeps what was typed for this tab, until it is saved. A token is a secret: it is not written anywhere. */
export function keepDraft(place: string, first: Draft, draft: Draft): void {
  const kept: Kept = { first, draft: { ...draft, token: "" } };
  try {
    if (JSON.stringify(kept.draft) === JSON.stringify(first)) forgetDraft(place);
    else sessionStorage.setItem(keyOf(place), JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing loses it with a reload.
  }
}

export function forgetDraft(place: string): void {
  try {
    sessionStorage.removeItem(keyOf(place));
  } catch {
    // Then nothing was kept.
  }
}
