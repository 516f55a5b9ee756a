// What the tests of the pages share: a gateway of their own with simulated engines, one Chromium for all files, and pages
// that complain. Tests find everything by role and label, as people do: never by a class or a test id.
//   GANTRY    the program
//   UI_DIST   a folder with a build of the UI that is newer than the one in the program: it is served in its place
//   SHOTS     a folder for screenshots
//   ONLY      a part of the names of the tests to run; steps of a walk need those before them
//   CHROMIUM  the browser (/usr/bin/chromium)
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { extname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { beginTest, closePages, counts, endTest, forgetPages, indented, openPage, PATIENCE, shownNow, testNow } from "./pages.mjs";

const UI_FOLDER = fileURLToPath(new URL("../../ui/", import.meta.url));
// Their packages are those of ui/.
const fromUi = createRequire(join(UI_FOLDER, "package.json"));
const { chromium } = fromUi("playwright-core");
const axe = readFileSync(fromUi.resolve("axe-core/axe.min.js"), "utf8");
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

export { complaintsOfNoTest, counts, openPage, PATIENCE } from "./pages.mjs";
export const PASSWORD = "correct horse battery";
/** Longest time of a test, in milliseconds. It is for tests that wait again and again: a single wait ends by itself before. */
const LONGEST_TEST = Number(process.env.TEST_SECONDS ?? 300) * 1000;

let browser;
const toEnd = [];

/** Returns the one browser of all files. */
export async function theBrowser() {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  });
  return browser;
}

/** Ends what a file has started: the last one first. */
export async function endAll() {
  forgetPages();
  for (const end of toEnd.splice(0).reverse()) await end().catch((error) => console.error(String(error)));
}

export async function closeBrowser() {
  await browser?.close();
}

/** Has `end` called when the file has ended. */
export const atEnd = (end) => toEnd.push(end);

/** Asks `check` again and again until it says something true, and returns that. */
export async function until(what, check) {
  const end = performance.now() + PATIENCE;
  const of = testNow();
  for (;;) {
    const found = await check();
    if (found) return found;
    if (of.isLate) assert.fail(`${what}, which has not happened`);
    if (performance.now() > end) assert.fail(`${what} did not happen within ${PATIENCE} ms`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** Presses Escape in a dialog. Before a dialog has taken the focus, it does not listen to the keyboard yet. */
export async function escape(page) {
  await until("a dialog has the focus", () => page.evaluate(() => document.activeElement?.closest("[role$=dialog]") != null));
  await page.keyboard.press("Escape");
}

/** What the element that has the focus is called. */
export const focused = (page) =>
  page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "");

/** Presses Tab until `target`, a name or a locator, has the focus: nobody needs a mouse to get there. */
export async function tabTo(page, target, most = 60) {
  const way = [];
  const isThere = (now) =>
    target instanceof RegExp ? target.test(now) : target.evaluate((it) => it === document.activeElement);
  if (!(target instanceof RegExp)) await target.waitFor();
  for (let at = 0; at < most; at += 1) {
    const now = (await focused(page)).trim();
    if (await isThere(now)) return;
    way.push(now.slice(0, 30));
    await page.keyboard.press("Tab");
  }
  assert.fail(`Tab does not lead to ${target}: ${way.join(" → ")}`);
}

/** Runs a test, and says whether it passed. What pages complained of meanwhile fails it, too. Returns whether it passed. */
export async function test(name, steps) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) return true;
  let timer;
  const began = performance.now();
  const me = beginTest(name);
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TooLong(`the test takes longer than ${LONGEST_TEST / 1000} s`)), LONGEST_TEST);
  });
  const walk = steps();
  try {
    await Promise.race([walk, late]);
    assert.deepEqual(me.wrong, [], "the pages have no complaint");
    counts.passed += 1;
    me.passed = true;
    console.log(`ok ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    return true;
  } catch (error) {
    counts.failed += 1;
    const shown = await shownNow();
    const isLate = error instanceof TooLong;
    const awaited = isLate ? `\nIt waited for: ${await giveUp(me, walk)}` : "";
    console.log(`FAIL ${name}\n${indented((error.stack ?? String(error)) + awaited)}`);
    if (me.wrong.length > 0) console.log(indented(`complaints of the pages: ${me.wrong.join("; ")}`));
    console.log(indented(shown));
    // Without its pages the rest of the file makes no sense.
    if (isLate) throw new WalkEnded();
    return false;
  } finally {
    clearTimeout(timer);
    await endTest(me);
  }
}

class TooLong extends Error {}

/** Ends a test that takes too long, by closing all pages. Returns what it waited for: that fails then, and says what it was. */
async function giveUp(test, walk) {
  test.isLate = true;
  await closePages();
  const silent = new Promise((said) => setTimeout(said, 10_000, "something that is neither on a page nor an `until`"));
  return Promise.race([walk.then(() => "nothing: it ended meanwhile", (error) => error.stack ?? String(error)), silent]);
}

/** The same for one step of a walk: the next ones make no sense after a failure, so the file ends. */
export async function step(name, steps) {
  if (!(await test(name, steps))) throw new WalkEnded();
}

export class WalkEnded extends Error {}

/** A promise as `new Promise(steps)` makes it, which fails after PATIENCE. */
export function within(what, steps) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not happen within ${PATIENCE} ms`)), PATIENCE);
  });
  return Promise.race([new Promise(steps), late]).finally(() => clearTimeout(timer));
}

/** A port that nothing listens on now; soon somebody may. A program that can, takes port 0 and says what it got. */
export async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/**
 * Starts a gateway with simulated engines, which run as processes. `settings` are settings of it; `owner: false` leaves the
 * first owner to the test; `engine` are options of the simulator; `demo: true` has the model of `serve --demo`, too.
 */
export async function startGateway({ settings = {}, owner = true, engine = "", demo = false } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "gantry-browser-"));
  const models = join(dir, "models");
  const packages = join(dir, "packages");
  for (const it of [models, packages]) mkdirSync(it);
  const program = resolve(process.env.GANTRY);
  const gateway = { dir, models, packages, url: "", ui: "", setup: undefined };
  let child;
  let port = 0;
  const start = async () => {
    child = spawn(program, ["serve", ...(demo ? ["--demo"] : [])], {
      cwd: dir,
      env: {
        PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), MODELS_DIR: models, EXPORT_DIRS: packages,
        RUST_LOG: process.env.RUST_LOG ?? "error", GATEWAY_LISTEN: `127.0.0.1:${port}`, METRICS_LISTEN: "127.0.0.1:0",
        CONTAINER_RUNTIME: "process", STOP_MODELS_ON_SHUTDOWN: "true", OFFLINE_MODE: "true",
        PRIMARY_ENGINE_COMMAND: `${program} engine-sim --flavour vllm ${engine}`.trim(),
        SECONDARY_ENGINE_COMMAND: `${program} engine-sim --flavour llamacpp ${engine}`.trim(),
        ...(owner ? { ADMIN_BOOTSTRAP_USERNAME: "ada", ADMIN_BOOTSTRAP_PASSWORD: PASSWORD } : {}),
        ...settings,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    child.stderr.on("data", (text) => {
      said = (said + text).slice(-4000);
      process.stderr.write(text);
    });
    const links = await within("the start of the gateway", (found, ended) => {
      const seen = {};
      // Not before all that it said was read.
      child.once("close", (code) => ended(Object.assign(new Error(`the gateway ended with ${code}`), { said })));
      createInterface({ input: child.stdout }).on("line", (line) => {
        const link = /https?:\S+/.exec(line)?.[0];
        if (line.includes("UI and API")) seen.ui = link;
        if (line.includes("Set-up")) seen.setup = link;
        if (seen.ui && (owner || seen.setup)) found(seen);
      });
    }).catch((error) => {
      child.kill("SIGKILL");
      throw error;
    });
    child.removeAllListeners("close");
    gateway.url = new URL(links.ui).origin;
    gateway.setup = links.setup;
    port = Number(new URL(links.ui).port);
  };
  const end = async (signal) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = within(`the end of the gateway after ${signal}`, (done) => child.once("exit", done));
    child.kill(signal);
    await gone.catch((error) => {
      child.kill("SIGKILL");
      throw error;
    });
  };
  try {
    await start();
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
  gateway.ui = `${gateway.url}/ui`;
  atEnd(() => end("SIGTERM").finally(() => rmSync(dir, { recursive: true, force: true })));

  /** Ends it at once, as the kernel would. Its engines go on. */
  gateway.kill = () => end("SIGKILL");
  /** Starts it again, at the same address, which another program may have for a moment. */
  gateway.start = () =>
    until("the port of the gateway is free again", () =>
      start().then(() => true, (error) => {
        if (!/address.*in use/i.test(error.said)) throw error;
      }));
  /** Signs in without a page. Returns a function that calls the API: `(method, path, body) => answer`. */
  gateway.as = async (username = "ada", password = PASSWORD) => {
    const answer = await fetch(`${gateway.url}/auth/login`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ username, password }),
      signal: AbortSignal.timeout(PATIENCE),
    });
    assert.equal(answer.status, 200, await answer.text());
    const cookie = answer.headers.get("set-cookie").split(";")[0];
    const call = async (method, path, body) => {
      const headers = { cookie, ...(body ? { "content-type": "application/json" } : {}) };
      const signal = AbortSignal.timeout(PATIENCE);
      const asked = fetch(`${gateway.url}${path}`, { method, headers, body: body && JSON.stringify(body), signal });
      const reply = await asked.catch((error) => assert.fail(`${method} ${path}: ${error.cause ?? error}`));
      const text = await reply.text();
      assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`);
      return text === "" ? undefined : JSON.parse(text);
    };
    return Object.assign(call, { cookie });
  };
  /** Opens a page in a context of its own; `as` is who is signed in there; with `touch` there are fingers and no mouse. */
  gateway.page = async ({ as, password, width = 1440, locale = "en-GB", headers = {}, touch = false } = {}) => {
    const context = await (await theBrowser()).newContext({
      viewport: { width, height: 900 }, locale, hasTouch: touch, isMobile: touch, reducedMotion: "reduce", extraHTTPHeaders: headers,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    atEnd(() => context.close());
    if (process.env.UI_DIST) await serveInItsPlace(context, gateway.url);
    if (as) {
      const [name, value] = (await gateway.as(as, password)).cookie.split("=");
      await context.addCookies([{ name, value, url: gateway.url }]);
    }
    return openPage(context);
  };
  return gateway;
}

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", woff2: "font/woff2" };

/** Answers for the pages from the build in UI_DIST, under the gateway's own content security policy. All else goes to the gateway. */
async function serveInItsPlace(context, gateway) {
  const headers = Object.fromEntries((await fetch(`${gateway}/ui/`)).headers);
  const policy = headers["content-security-policy"];
  await context.route((url) => url.origin === gateway && /^\/ui(\/|$)/.test(url.pathname), (route) => {
    const { pathname } = new URL(route.request().url());
    const name = extname(pathname) === "" ? "index.html" : pathname.slice("/ui/".length);
    try {
      const body = readFileSync(join(process.env.UI_DIST, name));
      return route.fulfill({ body, contentType: TYPES[extname(name).slice(1)], headers: { "content-security-policy": policy } });
    } catch {
      return route.fulfill({ status: 404, body: "" });
    }
  });
}

/** Fills in the sign-in, as somebody would. */
export async function signIn(page, username = "ada", password = PASSWORD) {
  await page.getByRole("textbox", { name: "User name" }).fill(username);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

/** The heading of the page: it is there once the page is. */
export const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true });
/** The navigation at the left. */
export const rail = (page) => page.getByRole("navigation", { name: "Main navigation" });

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/** Checks what is shown with axe in both themes, and that it is not wider than the window at two widths; takes pictures with SHOTS. */
export async function look(page, name, { widths = [1440, 390], themes = ["light", "dark"] } = {}) {
  const before = page.viewportSize();
  try {
    assert.deepEqual(await faultsOf(page, name, widths, themes), []);
  } finally {
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    await page.setViewportSize(before);
  }
}

async function faultsOf(page, name, widths, themes) {
  const told = [];
  for (const colorScheme of themes) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.waitForFunction((theme) => document.documentElement.dataset.theme === theme, colorScheme);
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      // What moves has ended, and what depends on the width is drawn.
      await page.evaluate(async () => {
        await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
        const finite = document.getAnimations().filter((it) => it.effect?.getComputedTiming().iterations !== Infinity);
        await Promise.allSettled(finite.map((it) => it.finished));
      });
      // What floats stays in the window: a picture of the whole page would show it over a page that ends below it.
      const fullPage = (await page.getByRole("dialog").count()) === 0;
      if (shots) await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage });
      if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
      // Only what is wrong leaves the page: all that axe knows is a megabyte.
      const violations = await page.evaluate(async (runOnly) => {
        const found = await window.axe.run({ runOnly, resultTypes: ["violations"] });
        // A bar that stays in the window covers a part of whatever is scrolled under it: a small target is judged in the middle.
        const covered = found.violations.find((it) => it.id === "target-size");
        if (covered) {
          const nodes = [];
          for (const node of covered.nodes) {
            const element = document.querySelector(node.target[0]);
            element.scrollIntoView({ block: "center" });
            const alone = await window.axe.run(element, { runOnly: ["target-size"], resultTypes: ["violations"] });
            nodes.push(...alone.violations.flatMap((it) => it.nodes));
          }
          covered.nodes = nodes;
        }
        const violations = found.violations.filter((it) => it.nodes.length > 0);
        return violations.map((it) => `${it.id} (${it.help}): ${it.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
      }, RULES);
      told.push(...violations.map((it) => `${name} ${width} ${colorScheme}: ${it}`));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) told.push(`${name} is ${wide} px wider than a window of ${width} px`);
    }
  }
  return told;
}
