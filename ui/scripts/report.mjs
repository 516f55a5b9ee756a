// Prints the sizes of dist/ against the budgets, in kB of gzip (fonts as they are: they are compressed). Fails above one.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const dist = process.env.UI_DIST
  ? `${resolve(process.env.UI_DIST)}/`
  : new URL("../dist/", import.meta.url).pathname;
const BUDGETS = { initial: 230, route: 60, math: 62, css: 15, fonts: 90, all: 700 };

const files = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((it) => it.isFile())
  .map((it) => {
    const path = join(it.parentPath, it.name);
    const bytes = readFileSync(path);
    const font = path.endsWith(".woff2");
    return {
      name: path.slice(dist.length),
      font,
      text: font ? "" : bytes.toString(),
      kb: (font ? bytes : gzipSync(bytes, { level: 9 })).length / 1000,
    };
  });
if (files.some((it) => it.name.endsWith(".map"))) throw new Error("dist has source maps");
if (files.some((it) => it.text.includes("data:font")))
  throw new Error("a font is inlined: the content security policy refuses it");

const html = files.find((it) => it.name === "index.html")?.text ?? "";
const named = (name) => files.find((it) => it.name === name);
const sum = (list) => list.reduce((all, it) => all + it.kb, 0);
const scripts = files.filter((it) => it.name.startsWith("assets/") && it.name.endsWith(".js"));

/** The scripts that a script needs before it runs. */
function needs(script, seen = new Set()) {
  if (seen.has(script)) return seen;
  seen.add(script);
  for (const [, name] of script.text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)) {
    const next = named(`assets/${name}`);
    if (next) needs(next, seen);
  }
  return seen;
}

const entry = named(/src="\/ui\/(assets\/[^"]+\.js)"/.exec(html)?.[1] ?? "");
const initial = entry ? needs(entry) : new Set();
const math = scripts.find((it) => it.name.startsWith("assets/tex-"));
if (!math || initial.has(math)) throw new Error("what draws formulas is no part of its own");
const routes = scripts.filter((it) => !initial.has(it) && it !== math);
const widest = routes.reduce((most, it) => (it.kb > most.kb ? it : most), { name: "none", kb: 0 });
const rows = [
  ["initial script", sum([...initial]), BUDGETS.initial],
  [`largest chunk (${widest.name})`, widest.kb, BUDGETS.route],
  [`formulas (${math.name})`, math.kb, BUDGETS.math],
  ["style sheets", sum(files.filter((it) => it.name.endsWith(".css"))), BUDGETS.css],
  ["fonts", sum(files.filter((it) => it.font)), BUDGETS.fonts],
  ["all of dist", sum(files), BUDGETS.all],
];
if (process.argv.includes("--json"))
  console.log(
    JSON.stringify(
      Object.fromEntries(rows.map(([name, kb]) => [name.replace(/ \(.*/, ""), Math.round(kb * 10) / 10])),
    ),
  );
else
  for (const [name, kb, budget] of rows)
    console.log(`${kb > budget ? "ABOVE" : "ok   "} ${name}: ${kb.toFixed(1)} of ${budget} kB`);
if (process.argv.includes("--all"))
  for (const it of scripts.sort((a, b) => b.kb - a.kb))
    console.log(`      ${it.kb.toFixed(1).padStart(6)} ${it.name}${initial.has(it) ? " (initial)" : ""}`);
if (rows.some(([, kb, budget]) => kb > budget)) process.exitCode = 1;
