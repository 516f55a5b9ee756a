import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, it } from "vitest";

const src = join(import.meta.dirname, "..");
const files = readdirSync(src, { recursive: true, withFileTypes: true })
  .filter((it) => it.isFile() && /\.tsx?$/.test(it.name) && !it.name.endsWith(".d.ts"))
  .map((it) => {
    const path = join(it.parentPath, it.name);
    return { path: relative(src, path), text: readFileSync(path, "utf8") };
  });

/** The folder below src that a path or an import belongs to: "kit", "pages/models". */
function partOf(path: string): string {
  const [first = "", second = ""] = path.split("/");
  return first === "pages" ? `pages/${second}` : first;
}

function importsOf({ path, text }: { path: string; text: string }): string[] {
  return [...text.matchAll(/(?:from |import\(?)"([@.][^"]*)"/g)].flatMap(([, to = ""]) => {
    if (to.startsWith("@/")) return [partOf(to.slice(2))];
    return to.startsWith(".") ? [partOf(relative(src, join(src, path, "..", to)))] : [];
  });
}

const SHARED = ["api", "i18n", "data", "live", "kit", "charts", "app", "parts"];
const MAY: Record<string, string[]> = {
  api: ["api"],
  i18n: ["i18n", "api"],
  data: ["data", "api", "live"],
  live: ["live", "api", "data"],
  kit: ["kit", "i18n", "api"],
  charts: ["charts", "kit", "i18n"],
  parts: ["parts", "data", "live", "kit", "charts", "api", "i18n"],
};

it("has parts that know only what is below them; no page knows another", () => {
  const wrong = files.flatMap((file) => {
    const part = partOf(file.path);
    const allowed = part.startsWith("pages/") ? [part, ...SHARED] : MAY[part];
    return allowed
      ? importsOf(file)
          .filter((to) => !allowed.includes(to))
          .map((to) => `${file.path} imports ${to}`)
      : [];
  });
  expect(wrong).toEqual([]);
});

it("has no text for people outside of the dictionaries", () => {
  const wrong = files
    .filter(({ path }) => path.endsWith(".tsx") && !path.includes(".test.") && !path.startsWith("pages/kit/"))
    .flatMap(({ path, text }) => {
      const between = [...text.matchAll(/>\s*([^<>{}()=;&|]*\p{L}{2,}[^<>{}()=;&|]*?)\s*<\//gu)].map(
        ([, found = ""]) => found,
      );
      const attributes = [
        ...text.matchAll(/\b(?:aria-label|title|placeholder|label|help|alt)="([^"]*\p{L}{2,}[^"]*)"/gu),
      ].map(([, found = ""]) => found);
      return [...between, ...attributes].map((found) => `${path}: ${found}`);
    });
  expect(wrong).toEqual([]);
});

it("swallows no error without saying where it is shown", () => {
  const empty = /catch\s*(?:\([^)]*\))?\s*\{\s*\}|\.catch\(\(\) => \{\s*\}\)|^\s*\(\) => \{\s*\},$/m;
  const wrong = files
    .filter(
      ({ path, text }) => !path.includes(".test.") && !path.startsWith("pages/kit/") && empty.test(text),
    )
    .map(({ path }) => path);
  expect(wrong).toEqual([]);
});

const GENERATED = ["api/operations.ts", "api/gateway-de.ts"];

it("has files of one subject: none is longer than 300 lines", () => {
  const long = files
    .filter(({ path, text }) => !GENERATED.includes(path) && text.split("\n").length > 301)
    .map(({ path }) => path);
  expect(long).toEqual([]);
});
