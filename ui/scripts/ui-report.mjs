// `make ui-report`: measures the web UI in headless Chromium on loopback, and writes bench/results/ui.json. Everything that it
// needs it starts itself; GANTRY and UI_DIST are as in tests/browser/harness.mjs.
import { execFileSync, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";

const root = new URL("../../", import.meta.url).pathname;
process.env.GANTRY ??= join(root, "target/debug/gantry");
const { closeBrowser, endAll, freePort, heading, openPage, startGateway, theBrowser, until } = await import(
  "../../tests/browser/harness.mjs"
);
const { fill } = await import("../../tests/browser/life.mjs");
const ROUNDS = 5;

const sorted = (list) => list.toSorted((a, b) => a - b);
const median = (list) => Math.round(sorted(list)[Math.floor(list.length / 2)]);
const worst = (list) => Math.round(Math.max(...list));

/** From the navigation to an overview that has its figures and takes clicks, in a browser that has nothing in its cache. */
async function overviewMs(gateway) {
  const page = await gateway.page({ as: "ada" });
  await page.goto(`${gateway.ui}/`);
  const link = page.getByRole("main").getByRole("link", { name: "tiny-llama" }).first();
  await link.waitFor();
  const ms = await page.evaluate(
    () =>
      new Promise((done) => {
        // Interactive: the last long task before now has ended, and what was waited for is drawn.
        requestAnimationFrame(() => done(performance.now()));
      }),
  );
  await page.context().close();
  return ms;
}

/** How long after an engine was killed each of several open pages says so. */
async function killedMs(gateway, life) {
  const context = (await gateway.page({ as: "ada" })).context();
  const name = life.running.served_name;
  const gone = {
    overview: ["/", "Overview"],
    models: ["/models", "Models"],
    model: [`/models/${life.running.id}`, name],
  };
  const waits = [];
  for (const [id, [path, title]] of Object.entries(gone)) {
    const page = await openPage(context);
    page.allow(/./);
    await page.goto(`${gateway.ui}${path}`);
    await heading(page, title).waitFor();
    // The row of the model in lists, its header on its own page.
    await page.getByText("Running", { exact: true }).first().waitFor();
    waits.push(
      page
        .waitForFunction(
          ([path, name]) => {
            const row = [...document.querySelectorAll("tr, li")].find((it) => it.textContent?.includes(name));
            const text = path.startsWith("/models/")
              ? (document.querySelector("header")?.textContent ?? "")
              : (row?.textContent ?? "");
            return text !== "" && !/Running/.test(text) && Date.now();
          },
          [path, name],
          { polling: "raf", timeout: 30_000 },
        )
        .then(async (at) => [id, await at.jsonValue()]),
    );
  }
  const run = join(gateway.dir, "data/run");
  const states = readdirSync(run).map((it) => [
    it,
    JSON.parse(readFileSync(join(run, it, "state.json"), "utf8")),
  ]);
  const engine = states.find(([it]) => it.endsWith(`-${life.running.id}`))?.[1];
  const at = Date.now();
  process.kill(engine.engine_pid, "SIGKILL");
  const told = Object.fromEntries((await Promise.all(waits)).map(([id, when]) => [id, when - at]));
  await context.close();
  await until(
    "the next start",
    async () => (await life.api("GET", `/admin/models/${life.running.id}`)).state !== "running",
  );
  return told;
}

/** The pages of a long conversation, with 250 tokens a second: what playground_speed.mjs measures. */
async function stream() {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port) };
  let preview;
  if (process.env.UI_DIST) {
    const served = await freePort();
    env.UI = `http://127.0.0.1:${served}/ui`;
    const args = [
      "node_modules/vite/bin/vite.js",
      "preview",
      "--outDir",
      process.env.UI_DIST,
      "--host",
      "127.0.0.1",
    ];
    preview = spawn(process.execPath, [...args, "--port", String(served), "--strictPort"], {
      cwd: join(root, "ui"),
      stdio: "ignore",
      env: { ...process.env, GANTRY_URL: `http://127.0.0.1:${port}` },
    });
    await until("the preview", () =>
      fetch(env.UI).then(
        () => true,
        () => false,
      ),
    );
  }
  try {
    return JSON.parse(
      execFileSync(process.execPath, [join(root, "tests/browser/playground_speed.mjs")], {
        env,
        encoding: "utf8",
      }),
    );
  } finally {
    preview?.kill();
  }
}

const sizes = JSON.parse(
  execFileSync(process.execPath, ["scripts/report.mjs", "--json"], {
    cwd: join(root, "ui"),
    encoding: "utf8",
  }),
);
const gateway = await startGateway();
const life = await fill(gateway);
const overview = [];
for (let at = 0; at < ROUNDS; at += 1) overview.push(await overviewMs(gateway));
const killed = await killedMs(gateway, life);
const chromium = (await theBrowser()).version();
await endAll();
await closeBrowser();
const long = await stream();
const report = {
  machine: { processor: cpus()[0].model, cores: cpus().length, chromium, node: process.versions.node },
  sizes_kb_gzip: sizes,
  overview_interactive_ms: { median: median(overview), worst: worst(overview), rounds: ROUNDS },
  killed_engine_to_page_ms: killed,
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
