/**
 * Puts the focus on the first field of `within` whose number can't be read, and returns whether there is one. Such a field has
 * the value of an empty one, so what is sent would not be what is shown.
 */
export function stopsAtUnreadable(within: ParentNode = document): boolean {
  const field = within.querySelector<HTMLElement>("[data-unreadable]");
  field?.focus();
  return field !== null;
}
