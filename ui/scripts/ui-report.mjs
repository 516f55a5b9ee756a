// `make ui-report`: measures the web UI in headless Chromium on loopback, and writes bench/results/ui.json. Everything that it
// needs it starts itself; GANTRY is the program, and UI_DIST the build that is measured (ui/dist).
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join, resolve } from "node:path";

const root = new URL("../../", import.meta.url).pathname;
process.env.GANTRY ??= join(root, "target/debug/gantry");
const { closeBrowser, endAll, freePort, heading, openPage, PASSWORD, startGateway, theBrowser, until } =
  await import("../../tests/browser/harness.mjs");
const { fill, killEngine } = await import("../../tests/browser/life.mjs");
const { serveBuild } = await import("../../tests/browser/build.mjs");
const { disagreements, logScroll, rowScroll } = await import("./figures.mjs");
const dist = resolve(process.env.UI_DIST ?? join(root, "ui/dist"));
const ROUNDS = 9;

const sorted = (list) => list.toSorted((a, b) => a - b);
const median = (list) => Math.round(sorted(list)[Math.floor(list.length / 2)]);
const best = (list) => Math.round(Math.min(...list));
const worst = (list) => Math.round(Math.max(...list));

/**
 * The overview in a browser that has nothing in its cache: from the navigation until it has its figures and takes clicks, what the
 * main thread itself used until then, and how many files were asked for.
 */
async function overviewFigures(gateway, url) {
  const page = await gateway.page({ as: "ada" });
  page.allow(/./);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  // Asked for in each frame of the page: the answers of a test's driver take longer than a frame.
  await page.addInitScript(() => {
    const look = () => {
      const links = [...document.querySelectorAll("main a")];
      // Interactive: what was waited for is drawn, and no task stands before the next frame.
      if (links.some((it) => it.textContent === "tiny-llama"))
        requestAnimationFrame(() => {
          window.interactive = performance.now();
        });
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await page.goto(`${url}/ui/`, { waitUntil: "commit" });
  const ms = await (await page.waitForFunction(() => window.interactive)).jsonValue();
  const { metrics } = await cdp.send("Performance.getMetrics");
  const cpu = metrics.find((it) => it.name === "TaskDuration").value * 1000;
  const files = await page.evaluate(
    () => performance.getEntriesByType("resource").filter((it) => it.name.includes("/ui/")).length,
  );
  await page.context().close();
  return { ms, cpu, files };
}

/** The most that an open page may need to say that an engine is gone. */
const TOLD_WITHIN_MS = 1000;

/** Pages that show whether a model runs: who looks, where, what stands there while it runs, and the words of its end. */
const shows = ({ id, served_name: name }) => ({
  overview: ["ada", "/", "Overview", "Running", "Stopped|Failed|Starting"],
  models: ["ada", "/models", "Models", "Running", "Stopped|Failed|Starting"],
  model: ["ada", `/models/${id}`, name, "Running", "Stopped|Failed|Starting"],
  playground: ["ada", `/playground?model=${name}`, "Playground", "Ask something.", "runs now"],
  system: ["ada", "/system", "System", "Healthy", "Stopped|Unhealthy"],
  overview_of_a_user: ["the-user", "/", "Overview", "Callable", "Not running"],
  playground_of_a_user: ["the-user", `/playground?model=${name}`, "Playground", "Ask something.", "runs now"],
});

/** How long after an engine was killed each of several open pages says so. */
async function killedMs(gateway, url, life) {
  const name = life.running.served_name;
  const contexts = {};
  const waits = [];
  for (const [id, [who, path, title, before, after]] of Object.entries(shows(life.running))) {
    contexts[who] ??= (await gateway.page({ as: who, password: PASSWORD })).context();
    const page = await openPage(contexts[who]);
    page.allow(/./);
    await page.goto(`${url}/ui${path}`);
    await heading(page, title).waitFor();
    await page.getByText(before, { exact: true }).first().waitFor();
    waits.push(
      page
        .waitForFunction(
          ([path, name, after]) => {
            // The row of the model in lists; else its name is in the words.
            const row = [...document.querySelectorAll("main tr, main li")].find((it) =>
              it.textContent?.includes(name),
            );
            const at = path.startsWith("/models/") ? document.querySelector("header") : row;
            const shown = (at ?? document.querySelector("main"))?.textContent ?? "";
            return new RegExp(after).test(shown) && Date.now();
          },
          [path, name, after],
          { polling: "raf", timeout: 30_000 },
        )
        .then(async (at) => [id, await at.jsonValue()]),
    );
  }
  const at = killEngine(gateway, life.running.id);
  const told = Object.fromEntries((await Promise.all(waits)).map(([id, when]) => [id, when - at]));
  for (const it of Object.values(contexts)) await it.close();
  for (const [id, ms] of Object.entries(told))
    assert.ok(ms <= TOLD_WITHIN_MS, `${id} says after ${ms} ms that an engine is gone`);
  await until(
    "the next start",
    async () => (await life.api("GET", `/admin/models/${life.running.id}`)).state !== "running",
  );
  return told;
}

/** A long conversation with 250 tokens a second: what playground_speed.mjs measures. */
async function stream() {
  const script = join(root, "tests/browser/playground_speed.mjs");
  const env = { ...process.env, UI_DIST: dist, PORT: String(await freePort()) };
  return JSON.parse(execFileSync(process.execPath, [script], { env, encoding: "utf8" }));
}

const load = loadavg().map((it) => Math.round(it * 100) / 100);
const sizes = JSON.parse(
  execFileSync(process.execPath, ["scripts/report.mjs", "--json"], {
    cwd: join(root, "ui"),
    encoding: "utf8",
  }),
);
/** Everything that takes a gateway with some life. */
async function measure() {
  const gateway = await startGateway();
  const life = await fill(gateway);
  const front = await serveBuild(dist, gateway.url);
  const overview = [];
  for (let at = 0; at < ROUNDS; at += 1) overview.push(await overviewFigures(gateway, front.url));
  const killed = await killedMs(gateway, front.url, life);
  await front.end();
  const lines = await logScroll(gateway, life, dist);
  const rows = await rowScroll(gateway, life, dist);
  const events = await disagreements(gateway, life, dist);
  const chromium = (await theBrowser()).version();
  return { overview, killed, lines, rows, events, chromium };
}

const { overview, killed, lines, rows, events, chromium } = await measure().finally(async () => {
  await endAll();
  await closeBrowser();
});
const of = (name) => overview.map((it) => it[name]);
const long = await stream();
const git = (...args) => execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim();
const report = {
  date: new Date().toISOString().slice(0, 10),
  commit: git("rev-parse", "--short=8", "HEAD"),
  machine: {
    processor: cpus()[0].model,
    cores: cpus().length,
    load_before: load,
    chromium,
    node: process.versions.node,
  },
  sizes_kb_gzip: sizes,
  overview: {
    interactive_ms: { median: median(of("ms")), best: best(of("ms")), worst: worst(of("ms")) },
    main_thread_cpu_ms: median(of("cpu")),
    requests_for_files: median(of("files")),
    rounds: ROUNDS,
  },
  killed_engine_to_page_ms: killed,
  log_scroll: lines,
  row_scroll: rows,
  random_events: events,
  stream_250_tokens_per_second: {
    conversation_tokens: long.history,
    shown_after_ms: long.lagMs,
    main_thread_busy_percent: long.busyPercent,
    long_tasks: long.longTasks,
  },
};
writeFileSync(join(root, "bench/results/ui.json"), `${JSON.stringify(report, null, 2)}\n`);
console.log(JSON.stringify(report, null, 2));
process.exit();
