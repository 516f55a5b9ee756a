// `make ui-report-large`: with much data, how long pages take from the click to each of their parts, and what they cost the
// gateway's other clients. Writes bench/results/ui-large.json. GANTRY and USAGE_FILL are programs of a release build, UI_DIST is
// the build that is measured.
import { execFileSync, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { serveBuild } from "../../tests/browser/build.mjs";
import { closeBrowser, endAll, heading, openPage, rail, until } from "../../tests/browser/harness.mjs";
import { largeGateway, OWNER } from "./large-data.mjs";

const ROUNDS = 9;
const SLICE_SECONDS = 5;
/** Pages, by their name in the navigation; what of them is waited for: a value that is no dash, or a part that has rows. */
const PAGES = {
  Keys: { rows: '[aria-label="Keys"] tbody button' },
  Usage: {
    sums: { fact: "Requests" },
    percentiles: { fact: "TTFT p50" },
    series: "figure canvas",
    groups: '[aria-label^="Breakdown"] tbody button',
    rows: '[aria-label="Requests"] tbody button',
  },
  Audit: { rows: '[aria-label="Audit"] tbody button' },
};

const say = (text) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
const sorted = (list) => list.toSorted((a, b) => a - b);
const at = (list, part) => sorted(list)[Math.min(list.length - 1, Math.floor(list.length * part))];
const spread = (list) => ({ median: Math.round(at(list, 0.5)), worst: Math.round(Math.max(...list)) });
const tenths = (ms) => Math.round(ms * 10) / 10;

/**
 * Goes to a page by its link, as the keyboard does, or back to it, and says how long after that each of its parts was painted, and how
 * long the longest task took meanwhile. A mouse that comes to rest on the link before it is pressed has the script fetched earlier.
 */
const opened = (page, name, back = false) =>
  page.evaluate(
    async ([name, parts, back]) => {
      const long = [];
      const observer = new PerformanceObserver((list) => {
        for (const it of list.getEntries()) long.push(it.duration);
      });
      observer.observe({ type: "longtask" });
      const seen = {};
      const isThere = (part) => {
        if (typeof part === "string") return document.querySelector(`main ${part}`);
        const label = [...document.querySelectorAll("main div")].find(
          (it) => it.childElementCount === 0 && it.textContent === part.fact,
        );
        return (label?.nextElementSibling?.textContent ?? "–") !== "–";
      };
      const began = performance.now();
      if (back) history.back();
      else [...document.querySelectorAll("nav a")].find((it) => it.textContent === name)?.click();
      await new Promise((done, failed) => {
        const look = () => {
          const here = document.querySelector("main h1")?.textContent === name;
          const fresh = Object.keys(parts).filter((it) => here && !(it in seen) && isThere(parts[it]));
          // Seen once the frame that this is called for has been painted.
          if (fresh.length > 0)
            setTimeout(() => {
              for (const it of fresh) seen[it] = performance.now() - began;
              if (Object.keys(seen).length === Object.keys(parts).length) done();
            });
          if (performance.now() - began > 20_000) failed(new Error(`only ${Object.keys(seen)} came`));
          requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      });
      observer.disconnect();
      return { ...seen, longest_task: Math.max(0, ...long) };
    },
    [name, PAGES[name], back],
  );

/** Waits until a page has asked for everything. */
const settled = async (page, title) => {
  await heading(page, title).waitFor();
  await until("the answers", () => page.pending() === 0);
  await sleep(100);
};

const overview = async (page) => {
  await rail(page).getByRole("link", { name: "Overview", exact: true }).click();
  await settled(page, "Overview");
};

const figures = (rounds) =>
  Object.fromEntries(Object.keys(rounds[0]).map((it) => [it, spread(rounds.map((round) => round[it]))]));

/** A page in a browser that has seen only the overview, then once more; and, with `range`, the page with that range. */
async function pageFigures(large, url, name, range) {
  const [first, again] = [[], []];
  let asked = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const page = await large.gateway.page({ as: OWNER });
    page.allow(/./);
    await page.goto(`${url}/ui/`);
    await settled(page, "Overview");
    if (range) {
      await rail(page).getByRole("link", { name, exact: true }).click();
      await settled(page, name);
      await page.goto(`${page.url()}?range=${range}`);
      await settled(page, name);
      await overview(page);
    }
    say(`${name}${range ? ` of ${range}` : ""}, round ${round + 1}`);
    asked = [];
    page.on("request", (it) => it.method() === "GET" && asked.push(it.url().slice(url.length)));
    if (!range) {
      first.push(await opened(page, name));
      await settled(page, name);
      await overview(page);
      again.push(await opened(page, name));
    } else again.push(await opened(page, name, true));
    await settled(page, name);
    await page.context().close();
  }
  return {
    ...(range ? {} : { cold: figures(first) }),
    warm: figures(again),
    asked: asked.filter((it) => it.startsWith("/admin/") && !it.startsWith("/admin/events")),
  };
}

/** How long the gateway takes for each request of a page, one at a time. */
async function apiFigures(large, asked) {
  const found = {};
  for (const path of new Set(asked)) {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const began = performance.now();
      await large.api("GET", path);
      times.push(performance.now() - began);
    }
    const { pathname, searchParams } = new URL(path, "http://gateway");
    const words = ["group_by", "bucket", "sort", "limit"].flatMap((it) =>
      searchParams.has(it) ? [`${it}=${searchParams.get(it)}`] : [],
    );
    const name = words.length > 0 ? `${pathname}?${words.join("&")}` : pathname;
    const figure = { median: tenths(at(times, 0.5)), worst: tenths(Math.max(...times)) };
    if (!(name in found) || found[name].median < figure.median) found[name] = figure;
  }
  return found;
}

/** Sends the requests of an opened page as the browser does, without a browser: five at a time. */
async function replay(large, asked) {
  const left = [...asked];
  const one = async () => {
    for (let path = left.shift(); path; path = left.shift()) await large.api("GET", path);
  };
  await Promise.all(Array.from({ length: 5 }, one));
}

/**
 * How long clients of `/v1` wait for a short answer: while nothing else happens, while the requests of the usage page of a month are
 * sent once a second, and while a browser on this machine opens it once a second. The three take turns.
 */
async function clientFigures(large, url, asked) {
  const page = await openPage((await large.gateway.page({ as: OWNER })).context());
  page.allow(/./);
  await page.goto(`${url}/ui/usage?range=30d`);
  await settled(page, "Usage");
  const kinds = {
    quiet: async () => {},
    requests_of_page: () => replay(large, asked),
    page_in_browser: async () => {
      await overview(page);
      await opened(page, "Usage", true);
    },
  };
  const load = spawn(
    process.execPath,
    [new URL("steady-load.mjs", import.meta.url).pathname, large.gateway.url, large.token, large.model],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  let text = "";
  load.stdout.on("data", (piece) => {
    text += piece;
  });
  const ended = new Promise((done) => load.once("exit", done));
  await sleep(2000);
  const slices = [];
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [kind, action] of Object.entries(kinds)) {
      const from = Date.now();
      for (let second = 1; second <= SLICE_SECONDS; second += 1) {
        await action();
        await sleep(Math.max(0, from + second * 1000 - Date.now()));
      }
      slices.push({ kind, from, to: Date.now() });
      await sleep(300);
    }
  load.stdin.end();
  await ended;
  const samples = JSON.parse(text);
  const timesOf = (slice) =>
    samples.flatMap(([due, ms]) => (due >= slice.from && due < slice.to ? [ms] : []));
  return Object.fromEntries(
    Object.keys(kinds).map((kind) => {
      const own = slices.filter((it) => it.kind === kind);
      const all = own.flatMap(timesOf);
      const ratios = own.map(
        (it, round) =>
          at(timesOf(it), 0.99) / at(timesOf(slices.filter(({ kind }) => kind === "quiet")[round]), 0.99),
      );
      return [
        kind,
        {
          answers: all.length,
          p50_ms: tenths(at(all, 0.5)),
          p99_ms: tenths(at(all, 0.99)),
          p99_to_quiet: Math.round(at(ratios, 0.5) * 100) / 100,
        },
      ];
    }),
  );
}

async function measure() {
  const large = await largeGateway();
  say(`${JSON.stringify(large.counts)} are there`);
  const front = await serveBuild(process.env.UI_DIST, large.gateway.url);
  const pages = {
    keys: await pageFigures(large, front.url, "Keys"),
    audit: await pageFigures(large, front.url, "Audit"),
    usage_of_a_day: await pageFigures(large, front.url, "Usage"),
    usage_of_a_month: await pageFigures(large, front.url, "Usage", "30d"),
  };
  const clients = await clientFigures(large, front.url, pages.usage_of_a_month.asked);
  const shown = {};
  const api = {};
  for (const [name, { asked, ...times }] of Object.entries(pages)) {
    shown[name] = times;
    api[name] = await apiFigures(large, asked);
  }
  await front.end();
  return { ...large.counts, rounds: ROUNDS, click_to_painted_ms: shown, api_ms: api, v1_answers: clients };
}

const found = await measure().finally(async () => {
  await endAll();
  await closeBrowser();
});
const root = new URL("../../", import.meta.url).pathname;
const commit = execFileSync("git", ["rev-parse", "--short=8", "HEAD"], {
  cwd: root,
  encoding: "utf8",
}).trim();
const date = new Date().toISOString().slice(0, 10);
const machine = { processor: cpus()[0].model, cores: cpus().length };
const report = `${JSON.stringify({ date, commit, machine, ...found }, null, 2)}\n`;
writeFileSync(`${root}bench/results/ui-large.json`, report);
console.log(report);
process.exit();
