// Measures how a fast stream is shown: 250 tokens/s behind a conversation of 100,000 tokens. It prints how late tokens show, and
// how busy the main thread is: GANTRY=… UI=http://127.0.0.1:4173/ui node playground_speed.mjs CHROMIUM.
//   UI       where the pages come from, a `vite preview` say; the gateway itself without it
//   PORT     of the gateway (18441)
//   UI_DIST  a build that is served in the place of the one in the program
//   TRACE    a file for Chromium's trace of the measured time
//   HISTORY  tokens of the conversation (100000)
//   TOKENS   of the answer (3000)
//   RATE     tokens per second (250)
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serveBuild } from "./build.mjs";
import { startEngine } from "./engine.mjs";

const { chromium } = createRequire(new URL("../../ui/package.json", import.meta.url))("playwright-core");
const port = process.env.PORT ?? "18441";
const gateway = `http://127.0.0.1:${port}`;
const history = Number(process.env.HISTORY ?? 100_000);
const tokens = Number(process.env.TOKENS ?? 3000);
const rate = Number(process.env.RATE ?? 250);
const dir = mkdtempSync(join(tmpdir(), "gantry-speed-"));
const serve = spawn(process.env.GANTRY, ["serve"], {
  cwd: dir, stdio: "ignore",
  env: {
    PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), RUST_LOG: "error", CONTAINER_RUNTIME: "process",
    GATEWAY_LISTEN: `127.0.0.1:${port}`, METRICS_LISTEN: "127.0.0.1:0",
    ADMIN_BOOTSTRAP_USERNAME: "ada", ADMIN_BOOTSTRAP_PASSWORD: "correct horse",
  },
});
const engine = await startEngine({ rate });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
for (let at = 0; at < 100; at += 1) {
  if (await fetch(`${gateway}/livez`).then((it) => it.ok, () => false)) break;
  await sleep(100);
}
const served = process.env.UI_DIST ? await serveBuild(process.env.UI_DIST, gateway) : undefined;
const ui = process.env.UI ?? `${served?.url ?? gateway}/ui`;
const json = { "content-type": "application/json" };
const credentials = JSON.stringify({ username: "ada", password: "correct horse" });
const signedIn = await fetch(`${gateway}/auth/login`, { method: "POST", headers: json, body: credentials });
const headers = { ...json, cookie: signedIn.headers.get("set-cookie").split(";")[0] };
const post = async (path, body) => (await fetch(gateway + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
await post("/admin/models/registry", { served_name: "mock", url: engine.url });
const chat = await post("/v1/chat/sessions", { model_name: "mock", engine_type: null });
// Four characters a token; a question of 20 tokens, an answer of 980 with all that markdown has.
const part = "A paragraph with **bold**, `code` and [a link](https://example.org/) that goes on for a while.\n\n- one\n- two\n\n```rust\nfn main() { println!(\"hello\"); }\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n";
const answer = part.repeat(Math.ceil(3920 / part.length)).slice(0, 3920);
for (let at = 0; at < history / 1000; at += 1) {
  await post(`/v1/chat/sessions/${chat.id}/messages`, { role: "user", content: `Question ${at}: ${"what of it ".repeat(6)}` });
  await post(`/v1/chat/sessions/${chat.id}/messages`, { role: "assistant", content: answer });
}

const browser = await chromium.launch({
  executablePath: process.argv[2] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(120_000);
  await page.addInitScript(() => {
    window.measured = { sent: [], shown: [], longTasks: [] };
    new PerformanceObserver((list) => {
      for (const it of list.getEntries()) window.measured.longTasks.push([it.startTime, it.duration]);
    }).observe({ type: "longtask", buffered: true });
    // When a piece arrives: by a copy of the stream, before the page has it.
    const real = window.fetch;
    window.fetch = async (...given) => {
      const response = await real(...given);
      if (!String(given[0]).endsWith("/completions") || !response.body) return response;
      let letters = 0;
      const tap = new TransformStream({
        transform(chunk, out) {
          const text = new TextDecoder().decode(chunk);
          for (const [, it] of text.matchAll(/"text":("(?:[^"\\]|\\.)*")/g)) letters += JSON.parse(it).replace(/[\s*`]/g, "").length;
          window.measured.sent.push([performance.now(), letters]);
          out.enqueue(chunk);
        },
      });
      return new Response(response.body.pipeThrough(tap), { status: response.status, headers: response.headers });
    };
  });
  await page.goto(`${ui}/login`);
  await page.evaluate((body) => fetch("/auth/login", { method: "POST", headers: { "content-type": "application/json" }, body }), credentials);
  const began = Date.now();
  await page.goto(`${ui}/playground/${chat.id}`);
  await page.getByText(`Question ${history / 1000 - 1}`, { exact: false }).first().waitFor();
  const opened = Date.now() - began;
  await sleep(2000);
  // By the clock, and by what the thread itself used: on a machine with other work the first counts its waiting, too.
  const domains = {};
  for (const timeDomain of ["timeTicks", "threadTicks"]) {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable", { timeDomain });
    domains[timeDomain] = async () => Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((it) => [it.name, it.value]));
  }
  const taken = async () => ({ clock: await domains.timeTicks(), thread: await domains.threadTicks() });
  await page.getByRole("textbox", { name: "Question", exact: true }).fill(`long ${tokens}`);
  await page.evaluate(() => {
    window.measured.longTasks.length = 0;
    // What is on the screen: asked for in each frame, after its drawing.
    const look = () => {
      const it = document.querySelector("article[aria-busy=true]");
      const text = it ? it.querySelector("div[dir=auto]").textContent : "";
      if (text) window.measured.shown.push([performance.now(), text.replace(/[\s*`]/g, "").replaceAll("python", "").length]);
      setTimeout(() => requestAnimationFrame(look), 16);
    };
    requestAnimationFrame(look);
  });
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.measured.sent.length > 20);
  if (process.env.TRACE)
    await browser.startTracing(page, { path: process.env.TRACE, categories: ["devtools.timeline", "disabled-by-default-v8.cpu_profiler", "disabled-by-default-devtools.timeline"] });
  const before = await taken();
  await page.waitForTimeout((tokens / rate) * 1000 * 0.85);
  const after = await taken();
  if (process.env.TRACE) await browser.stopTracing();
  await page.getByRole("log").getByText("finished", { exact: true }).waitFor();
  const { sent, shown, longTasks } = await page.evaluate(() => window.measured);
  // Every piece that arrived: when was a text of at least its length there?
  const lags = [];
  let at = 0;
  for (const [when, letters] of sent) {
    while (at < shown.length && (shown[at][1] < letters || shown[at][0] < when)) at += 1;
    if (at === shown.length) break;
    lags.push(shown[at][0] - when);
  }
  lags.sort((a, b) => a - b);
  const share = (p) => Math.round(lags[Math.min(lags.length - 1, Math.floor(lags.length * p))] ?? Number.NaN);
  const wall = after.clock.Timestamp - before.clock.Timestamp;
  const busy = (name, domain = "clock") => Math.round(((after[domain][name] - before[domain][name]) / wall) * 1000) / 10;
  const late = longTasks.map(([, it]) => Math.round(it));
  console.log(JSON.stringify({
    history, tokens, rate, pieces: sent.length, measured: lags.length, openedMs: opened,
    lagMs: { p50: share(0.5), p95: share(0.95), p99: share(0.99), max: share(1) },
    busyPercent: { all: busy("TaskDuration"), own: busy("TaskDuration", "thread"), script: busy("ScriptDuration"), layout: busy("LayoutDuration"), style: busy("RecalcStyleDuration") },
    longTasks: { count: late.length, max: Math.max(0, ...late) },
  }, null, 1));
} finally {
  await browser.close();
  await served?.end();
  engine.stop();
  serve.kill();
  await sleep(300);
  rmSync(dir, { recursive: true, force: true });
}
process.exit();
