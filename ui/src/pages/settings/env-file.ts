import type { Setting } from "@/data/settings";

/** What a secret's value is shown as by the gateway. */
export const HIDDEN = "***";

/** Whether a setting was set somewhere. */
export function isChanged(it: Setting): boolean {
  return it.source !== "default";
}

/** Writes a value as a line of an env file takes it: quoted where a shell or the gateway would read it otherwise. */
export function envValue(value: string): string {
  return /^[\w./:@,+=*-]*$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

/** The settings that were set, as lines of an env file. Secrets are named and not shown. */
export function envFile(settings: Setting[], note: string, secret: string): string {
  const lines = settings
    .filter(isChanged)
    .map((it) => (it.value === HIDDEN ? `# ${it.name}= ${secret}` : `${it.name}=${envValue(it.value)}`));
  return [note, ...lines, ""].join("\n");
}

/** Whether a setting is about a text: its name, what it does, or its value. */
export function matches(it: Setting, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = `${it.name} ${it.name.replaceAll("_", " ")} ${it.group} ${it.doc} ${it.value}`.toLowerCase();
  return words.every((word) => all.includes(word));
}
