import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const css = readFileSync(`${import.meta.dirname}/tokens.css`, "utf8");
const block = (selector: string) => {
  const from = css.indexOf(`${selector} {`);
  const text = css.slice(from, css.indexOf("\n}", from));
  return Object.fromEntries(
    [...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value]),
  );
};
const light = block(":root");
const dark = { ...light, ...block(':root[data-theme="dark"]') };

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high! + 0.05) / (low! + 0.05);
}

const GROUNDS = ["bg", "panel", "raised", "hover"];
const TONES = ["ok", "busy", "warn", "bad", "idle"];

describe.each([
  ["light", light],
  ["dark", dark],
] as const)("the %s theme", (_, theme) => {
  const least = (front: string, back: string, ratio: number) =>
    expect(contrast(theme[front]!, theme[back]!), `${front} on ${back}`).toBeGreaterThanOrEqual(ratio);

  it("has text that can be read on every ground", () => {
    for (const ground of GROUNDS)
      for (const text of ["text", "text-2", "text-3", "accent-text"]) least(text, ground, 4.5);
    for (const text of ["text", "text-2", "accent-text"]) least(text, "accent-soft", 4.5);
    least("on-accent", "accent", 4.5);
  });

  it("has states that can be read, alone and on their soft ground", () => {
    for (const tone of TONES) {
      least(tone, `${tone}-soft`, 4.5);
      least("text", `${tone}-soft`, 4.5);
      least("text-2", `${tone}-soft`, 4.5);
      for (const ground of GROUNDS) least(tone, ground, 4.5);
      least(`${tone}-solid`, "panel", 3);
    }
  });

  it("has colours for logs that can be read, also in the line that is pointed at", () => {
    for (const ground of ["panel", "accent-soft"])
      for (const text of ["bad", "ok", "warn", "busy", "series-4", "accent-text"]) least(text, ground, 4.5);
    least("text-3", "panel", 4.5);
  });

  it("has lines that mean something and can be seen", () => {
    for (const ground of ["bg", "panel", "raised"])
      for (const line of ["line-strong", "accent"]) least(line, ground, 3);
    for (let index = 1; index <= 6; index += 1) least(`series-${index}`, "panel", 3);
  });
});
