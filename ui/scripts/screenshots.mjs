// Takes screenshots of pages, in both themes and two widths: UI=http://127.0.0.1:5173/ui SIGN_IN=name:password
// node scripts/screenshots.mjs PATH… → screenshots/, and runs axe on each. It fails if axe, or the console, has a complaint.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const ui = process.env.UI ?? "http://127.0.0.1:5173/ui";
const out = process.env.OUT ?? "screenshots";
const [user, password] = (process.env.SIGN_IN ?? "").split(":");
const paths = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [1440, 390];
const THEMES = ["light", "dark"];

mkdirSync(out, { recursive: true });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
  ],
});
let complaints = 0;
for (const width of WIDTHS) {
  for (const theme of THEMES) {
    const context = await browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: theme,
      reducedMotion: "reduce",
      locale: process.env.LANGUAGE_OF_UI ?? "en-GB",
      extraHTTPHeaders: process.env.FORWARDED ? { "x-forwarded-for": process.env.FORWARDED } : {},
    });
    const page = await context.newPage();
    page.on("pageerror", (error) => {
      complaints += 1;
      console.log(`${theme} ${width}: ${error}`);
    });
    page.on("console", (message) => {
      if (message.type() !== "error" || message.text().includes("401")) return;
      complaints += 1;
      console.log(`${theme} ${width}: ${message.text()}`);
    });
    if (user) {
      await page.goto(`${ui}/login`);
      await page.evaluate(
        (body) =>
          fetch("/auth/login", { method: "POST", headers: { "content-type": "application/json" }, body }),
        JSON.stringify({ username: user, password }),
      );
    }
    for (const path of paths) {
      await page.goto(`${ui}${path}`);
      await page.waitForLoadState("load");
      await page.waitForTimeout(Number(process.env.WAIT ?? 1500));
      const name = path.replace(/\W+/g, "-").replace(/^-|-$/g, "") || "overview";
      await page.screenshot({ path: `${out}/${name}-${width}-${theme}.png`, fullPage: true });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        window.axe.run({
          runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
        }),
      );
      for (const it of violations) {
        complaints += 1;
        console.log(`${path} ${theme} ${width}: ${it.id} (${it.impact}): ${it.help}`);
        for (const node of it.nodes.slice(0, 4))
          console.log(`    ${node.html.slice(0, 160)}\n      ${node.any[0]?.message ?? node.failureSummary}`);
      }
    }
    await context.close();
  }
}
await browser.close();
if (complaints > 0) {
  console.log(`${complaints} complaints`);
  process.exitCode = 1;
}
