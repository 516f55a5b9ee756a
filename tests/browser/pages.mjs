// Pages that complain of every fault, and whose complaint it is: that of the test which opened the page, or which ran when it began.
import { join } from "node:path";

/**
 * Longest wait for anything, in milliseconds. Every wait has this one limit: the machines of CI are slow, and no test says how fast
 * they are.
 */
export const PATIENCE = 90_000;

const shots = process.env.SHOTS;
/** Every page that is open, with the test that opened it, if one did. */
const pages = new Map();
/** Stands for a test while none runs. */
const outside = { name: "", wrong: [] };
let current = outside;
export const counts = { passed: 0, failed: 0 };

export const indented = (text) => text.replace(/^/gm, "    ");

/** The test that runs, or what stands for it. */
export const testNow = () => current;

/** Begins a test. */
export function beginTest(name) {
  current = { name, wrong: [], passed: false, isOver: false, isLate: false };
  return current;
}

/** Ends it, and closes the pages that it has left open, so that what happens on them is nobody else's. */
export async function endTest(test) {
  test.isOver = true;
  current = outside;
  for (const [page, opener] of pages) {
    if (opener !== test) continue;
    pages.delete(page);
    await page.close().catch(() => {});
  }
}

/** Leaves all pages to themselves: what is closed may complain as it likes. */
export function forgetPages() {
  pages.clear();
  outside.wrong.length = 0;
}

/** Closes all pages. */
export async function closePages() {
  const open = [...pages.keys()];
  forgetPages();
  for (const page of open) await page.close().catch(() => {});
}

/** Notes what is wrong on a page for the test that it belongs to. A test that has passed before it comes has failed after all. */
function complain(test, text) {
  test.wrong.push(text);
  if (!test.isOver) return;
  console.log(`FAIL ${test.name}\n${indented(`after its end: ${text}`)}`);
  if (!test.passed) return;
  test.passed = false;
  counts.passed -= 1;
  counts.failed += 1;
}

/** Returns what pages complained of while no test ran. */
export const complaintsOfNoTest = () => outside.wrong.splice(0);

/** Returns what stands on the pages that are open, and takes pictures of them with SHOTS. */
export async function shownNow() {
  const shown = [];
  for (const page of pages.keys()) {
    if (page.isClosed()) continue;
    const seen = await page.getByRole("main").or(page.locator("body")).first().ariaSnapshot({ timeout: 2000 }).catch(() => "");
    shown.push(`at ${page.url()}`, seen.slice(0, 4000));
    if (shots) await page.screenshot({ path: join(shots, `failed-${counts.failed}.png`) }).catch(() => {});
  }
  return shown.join("\n");
}

/** Opens one more page in a context: a tab. It complains of every fault, unless `page.allow` names it. */
export async function openPage(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const allowed = [];
  const wrong = [];
  const answers = [];
  // What a test opens is its own. Of a page that the whole file has, each test has what began while it ran.
  const opener = current === outside ? undefined : current;
  const owner = () => opener ?? current;
  /** Who asked for something, and what was allowed then: the answer may come when the next test runs. */
  const asked = new WeakMap();
  const fault = (text, request) => {
    const { test = owner(), allowedThen = [] } = asked.get(request) ?? {};
    if (!pages.has(page) || [...allowedThen, ...allowed].some((pattern) => pattern.test(text))) return;
    wrong.push(text);
    complain(test, text);
  };
  /** Faults that the test makes itself, as patterns: `403 GET /admin/users`, `lost GET /admin/models`, or a text. */
  page.allow = (...patterns) => allowed.push(...patterns);
  page.forbid = () => allowed.splice(0);
  page.complaints = wrong;
  /** Every answer of the gateway, as `200 GET /path`. */
  page.answers = answers;
  // Requests without an answer.
  const open = new Set();
  page.pending = () => open.size;
  page.on("request", (request) => {
    open.add(request);
    asked.set(request, { test: owner(), allowedThen: [...allowed] });
  });
  page.on("requestfinished", (request) => open.delete(request));
  page.on("requestfailed", (request) => open.delete(request));
  // The stream of events never ends, nor does a log that is followed: whoever runs when it is lost has lost it.
  page.on("response", (answer) => {
    if (!answer.headers()["content-type"]?.startsWith("text/event-stream")) return;
    open.delete(answer.request());
    asked.delete(answer.request());
  });
  page.on("framenavigated", (frame) => frame === page.mainFrame() && open.clear());
  page.on("pageerror", (error) => fault(`error: ${error}`));
  page.on("console", (message) => {
    // What could not be fetched is told below, with its address.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) fault(`console: ${message.text()}`);
  });
  page.on("response", (answer) => {
    const { pathname } = new URL(answer.url());
    const line = `${answer.status()} ${answer.request().method()} ${pathname}`;
    answers.push(line);
    // A page that is not signed in asks who it is: 401 is an answer, not a fault.
    if (answer.status() >= 400 && line !== "401 GET /auth/me") fault(line, answer.request());
  });
  page.on("requestfailed", (request) => {
    // What a page that is left no longer needs is aborted.
    if (request.failure()?.errorText !== "net::ERR_ABORTED")
      fault(`lost ${request.method()} ${new URL(request.url()).pathname}: ${request.failure()?.errorText}`, request);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  pages.set(page, opener);
  page.on("close", () => setTimeout(() => pages.delete(page)));
  return page;
}
