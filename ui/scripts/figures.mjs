// The figures of ui-report.mjs that need more data than a gateway has: long logs, long tables, and many events. They are answered
// in the gateway's place, from records that it gave.
import { serveBuild } from "../../tests/browser/build.mjs";
import { heading, openPage, until } from "../../tests/browser/harness.mjs";

const LINES = 100_000;
const ROWS = 10_000;
const EVENTS = 10_000;
const BATCH = 100;
const SCROLL_SECONDS = 8;
const SSE = { "content-type": "text/event-stream", "cache-control": "no-store" };
/** How a page names each state. */
const WORDS = {
  stopped: "Stopped",
  starting: "Starting",
  loading: "Loading",
  running: "Running",
  stopping: "Stopping",
  failed: "Failed",
};

function answerList(answer, items, total = items.length) {
  answer.writeHead(200, { "content-type": "application/json", "x-total-count": String(total) });
  answer.end(JSON.stringify(items));
}

/** Scrolls a box from its beginning to its end and back, a piece in each frame; returns what kept the main thread busy meanwhile. */
async function scrolled(box) {
  await box.hover();
  return box.evaluate(async (element, seconds) => {
    const long = [];
    const observer = new PerformanceObserver((list) => {
      for (const it of list.getEntries()) long.push(it.duration);
    });
    observer.observe({ type: "longtask" });
    const began = performance.now();
    let frames = 0;
    await new Promise((done) => {
      const step = () => {
        const part = (performance.now() - began) / (seconds * 1000);
        if (part >= 1) return done();
        frames += 1;
        // Far with each frame in the first half, as when the bar is dragged; then as with a wheel.
        const far = element.scrollHeight - element.clientHeight;
        element.scrollTop = part < 0.5 ? far * part * 2 : element.scrollTop - 120;
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
    await new Promise((done) => setTimeout(done, 200));
    observer.disconnect();
    return {
      long_tasks: long.length,
      longest_task_ms: Math.round(Math.max(0, ...long)),
      frames_per_second: Math.round(frames / seconds),
    };
  }, SCROLL_SECONDS);
}

/** Long tasks while a log of 100,000 lines is scrolled. */
export async function logScroll(gateway, life, dist) {
  const front = await serveBuild(dist, gateway.url, (_, answer, to) => {
    if (to.pathname !== `/admin/models/${life.running.id}/logs`) return false;
    answer.writeHead(200, SSE);
    for (let at = 0; at < LINES; at += 1) {
      const level = at % 50 === 0 ? "WARNING" : "INFO";
      const line = `${level} 11-23 20:00:00 [engine.py:${at}] step ${at}: ${"tokens and blocks ".repeat(1 + (at % 6))}`;
      answer.write(`data: ${JSON.stringify({ line })}\n\n`);
    }
    return true;
  });
  const page = await gateway.page({ as: "ada" });
  page.allow(/./);
  await page.goto(`${front.url}/ui/models/${life.running.id}?tab=logs`);
  const log = page.getByRole("log");
  await log.getByText(`step ${LINES - 1}:`).waitFor({ timeout: 60_000 });
  const found = await scrolled(log);
  await page.context().close();
  await front.end();
  return { lines: LINES, ...found };
}

/** Long tasks while a table of 10,000 requests is scrolled. */
export async function rowScroll(gateway, life, dist) {
  const row = await until("a usage row", async () => (await life.api("GET", "/admin/usage?limit=1"))[0]);
  const rows = Array.from({ length: ROWS }, (_, at) => ({
    ...row,
    id: row.id.slice(0, -5) + String(at).padStart(5, "0"),
    completion_tokens: at,
  }));
  const front = await serveBuild(dist, gateway.url, (_, answer, to) => {
    if (to.pathname !== "/admin/usage" || to.searchParams.get("limit") !== "500") return false;
    answerList(answer, rows);
    return true;
  });
  const page = await gateway.page({ as: "ada" });
  page.allow(/./);
  await page.goto(`${front.url}/ui/usage?tab=rows`);
  const table = page.getByRole("region", { name: "Requests", exact: true }).last();
  await until("the rows", async () => (await table.getByRole("row").count()) > 5);
  const found = await scrolled(table);
  await page.context().close();
  await front.end();
  return { rows: ROWS, ...found };
}

/** What a page shows of each model: its row in a list, or the header of its own page. */
const shownStates = (page, names, words) =>
  page.evaluate(
    ([names, words]) =>
      names.flatMap((name) => {
        const rows = [...document.querySelectorAll("main tr, main li")];
        const own = document.querySelector("main h1")?.textContent === name;
        const place = own
          ? document.querySelector("main header")
          : rows.find((it) => it.textContent?.includes(name));
        const word = words.find((it) => place?.textContent?.includes(it));
        return place ? [`${name}: ${word}`] : [];
      }),
    [names, words],
  );

/** Disagreements between pages, and with the gateway, after each 100 of 10,000 random events. */
export async function disagreements(gateway, life, dist) {
  const truth = await life.api("GET", "/admin/models?limit=1000");
  const local = truth.filter((it) => it.state in WORDS);
  const readers = new Set();
  const front = await serveBuild(dist, gateway.url, (asked, answer, to) => {
    const id = Number(/^\/admin\/models\/(\d+)$/.exec(to.pathname)?.[1]);
    const one = truth.find((it) => it.id === id);
    if (asked.method !== "GET") return false;
    if (to.pathname === "/admin/models") answerList(answer, truth);
    else if (one) {
      answer.writeHead(200, { "content-type": "application/json" });
      answer.end(JSON.stringify(one));
    } else if (to.pathname === "/admin/events") {
      answer.writeHead(200, SSE);
      answer.write(`event: snapshot\ndata: ${JSON.stringify(truth)}\n\n`);
      readers.add(answer);
      answer.on("close", () => readers.delete(answer));
    } else return false;
    return true;
  });
  const context = (await gateway.page({ as: "ada" })).context();
  const open = [
    ["/", "Overview"],
    ["/models", "Models"],
    [`/models/${life.running.id}`, life.running.served_name],
  ];
  const pages = [];
  for (const [path, title] of open) {
    const page = await openPage(context);
    page.allow(/./);
    await page.goto(`${front.url}/ui${path}`);
    await heading(page, title).waitFor();
    pages.push(page);
  }
  await until("the streams of events", async () => readers.size === pages.length);
  const names = local.map((it) => it.served_name);
  const states = Object.keys(WORDS);
  let found = 0;
  let compared = 0;
  let slowest = 0;
  for (let sent = 0; sent < EVENTS; sent += BATCH) {
    for (let at = 0; at < BATCH; at += 1) {
      const model = local[Math.floor(Math.random() * local.length)];
      model.state = states[Math.floor(Math.random() * states.length)];
      model.state_reason = model.state === "failed" ? "the engine exited" : null;
      model.diagnosis = null;
      for (const it of readers) it.write(`event: model\ndata: ${JSON.stringify(model)}\n\n`);
      if (at % 10 === 9) await new Promise((done) => setTimeout(done, 5));
    }
    const told = performance.now();
    const right = local.map((it) => `${it.served_name}: ${WORDS[it.state]}`);
    for (const page of pages) {
      const wrong = async () =>
        (await shownStates(page, names, Object.values(WORDS))).filter((it) => !right.includes(it));
      while ((await wrong()).length > 0 && performance.now() - told < 1000)
        await new Promise((done) => setTimeout(done, 10));
      const left = await wrong();
      const all = await shownStates(page, names, Object.values(WORDS));
      found += left.length;
      compared += all.length;
    }
    slowest = Math.max(slowest, performance.now() - told);
  }
  await context.close();
  await front.end();
  return { events: EVENTS, compared, disagreements: found, slowest_agreement_ms: Math.round(slowest) };
}
