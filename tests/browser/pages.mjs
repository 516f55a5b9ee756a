// Drives the pages of a fresh gateway (the program in GANTRY) in the Chromium given as argument.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const dir = mkdtempSync(join(tmpdir(), "gantry-browser-"));
const gateway = spawn(process.env.GANTRY, ["serve"], {
  cwd: dir,
  env: {
    PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), RUST_LOG: "warn",
    GATEWAY_LISTEN: "127.0.0.1:0", METRICS_LISTEN: "127.0.0.1:0",
    // No container runtime: a start must fail with a reason that the page shows.
    CONTAINER_HOST: `unix://${join(dir, "no.sock")}`,
  },
  stdio: ["ignore", "pipe", "inherit"],
});
const links = await new Promise((resolve, reject) => {
  const found = {};
  gateway.on("exit", () => reject(new Error("the gateway ended")));
  createInterface({ input: gateway.stdout }).on("line", (line) => {
    const link = /https?:\S+/.exec(line)?.[0];
    if (line.includes("UI and API")) found.ui = link;
    if (line.includes("Set-up")) found.setup = link;
    if (found.ui && found.setup) resolve(found);
  });
});

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const page = await browser.newPage();
const complaints = [];
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => {
  // A page that is not signed in asks who it is: 401 is an answer, not a fault.
  if (message.type() === "error" && !message.text().includes("401")) complaints.push(message.text());
});
let passed = 0;

async function test(name, steps) {
  await steps();
  passed += 1;
  console.log(`ok ${name}`);
}

// One after the other: there is one focus.
const fill = async (form, fields) => {
  for (const [name, value] of Object.entries(fields)) await page.fill(`#${form} [name=${name}]`, value);
};
const visible = async () => {
  const parts = ["setup", "no-owner", "sign-in", "overview"];
  const shown = await Promise.all(parts.map((id) => page.isVisible(`#${id}`)));
  return parts.filter((_, index) => shown[index]);
};
const fromPage = (method, path, body) =>
  page.evaluate(async ([method, path, body]) => {
    const headers = body ? { "content-type": "application/json" } : {};
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    return [answer.status, await answer.json()];
  }, [method, path, body]);

try {
  await test("without an owner the page says how to make one", async () => {
    // As from another machine: a header of a proxy.
    await page.setExtraHTTPHeaders({ "x-forwarded-for": "192.0.2.1" });
    await page.goto(links.ui);
    await page.waitForSelector("#no-owner:visible");
    assert.deepEqual(await visible(), ["no-owner"]);
    assert.match(await page.textContent("#no-owner"), /Set-up link.*gantry owner create/s);
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `no-owner-${scheme}.png`) });
    }
    // On the gateway's machine its own user needs no token.
    await page.setExtraHTTPHeaders({});
    await page.click("#look-again");
    await page.waitForSelector("#setup:visible");
    assert.equal(await page.isVisible("#token"), false);
  });

  await test("the set-up link works in a tab that is open, makes the first owner and signs them in", async () => {
    await page.setExtraHTTPHeaders({ "x-forwarded-for": "192.0.2.1" });
    await page.goto(links.ui);
    await page.waitForSelector("#no-owner:visible");
    // Only the fragment changes: nothing is loaded anew.
    await page.evaluate((link) => { location.href = link; }, links.setup);
    await page.waitForSelector("#setup:visible");
    assert.deepEqual(await visible(), ["setup"]);
    assert.equal(await page.inputValue("#setup [name=setup_token]"), links.setup.split("=")[1]);
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, "setup.png") });
    await fill("setup", { org_name: "Acme", username: "ada", password: "correct horse" });
    await page.click("#setup button");
    await page.waitForSelector("#overview:visible");
    assert.equal(await page.textContent("#who"), "ada (owner)");
    assert.equal(new URL(page.url()).hash, "", "the token is gone from the address");
    await page.setExtraHTTPHeaders({});
    // The link again, now that it has served its purpose.
    await page.goto("about:blank");
    await page.goto(links.setup);
    await page.waitForSelector("#overview:visible");
    assert.equal(new URL(page.url()).hash, "");
  });

  await test("a model can be started, and why it failed is shown", async () => {
    const [status] = await fromPage("POST", "/admin/models", {
      served_name: "<b>tiny</b>", engine_type: "llamacpp", local_path: "tiny.gguf", force: true,
    });
    assert.equal(status, 201);
    await page.reload();
    await page.click("#models button:text('Start')");
    await page.waitForSelector("#models td.failed");
    const row = await page.textContent("#models tr");
    assert.match(row, /<b>tiny<\/b>/, "names are text, never markup");
    assert.match(row, /start_failed/);
  });

  await test("signing out ends the session; a wrong password is refused, the right one is not", async () => {
    await page.click("#sign-out");
    await page.waitForSelector("#sign-in:visible");
    assert.equal((await fromPage("GET", "/auth/me"))[0], 401);
    await fill("sign-in", { username: "ada", password: "wrong" });
    await page.click("#sign-in button");
    await page.waitForSelector("#message:visible");
    assert.match(await page.textContent("#message"), /user name or the password is wrong/);
    await fill("sign-in", { username: "ada", password: "correct horse" });
    await page.click("#sign-in button");
    await page.waitForSelector("#overview:visible");
  });

  await test("the pages work under their content security policy without a complaint", async () => {
    assert.deepEqual(complaints, []);
  });

  await test("a page of another port reads nothing with the session, and what listens there gets no cookie from a link of another site", async () => {
    const seen = [];
    const listener = createServer((request, answer) => {
      // What the page itself asks for, its icon say, is of the same site.
      if (request.url === "/") seen.push(request.headers.cookie ?? "");
      answer.setHeader("content-type", "text/html").end("<p>elsewhere");
    });
    await new Promise((listening) => listener.listen(0, "127.0.0.1", listening));
    const here = `http://127.0.0.1:${listener.address().port}/`;
    await page.goto(`http://localhost:${listener.address().port}/`);
    await Promise.all([page.waitForURL(here), page.evaluate((to) => { location.href = to; }, here)]);
    assert.equal(seen.filter((it) => it.includes("svc_session")).length, 0, "the cookie went to another port");
    // From there the browser sends the cookie, as both are one site to it.
    const target = new URL("/auth/me", links.ui).href;
    const [answer] = await Promise.all([
      page.waitForResponse(target), page.evaluate((to) => { location.href = to; }, target),
    ]);
    assert.equal(answer.status(), 403);
    assert.match(await answer.text(), /cross_site_request/);
    listener.close();
    await page.goto(links.ui);
    await page.waitForSelector("#overview:visible");
  });

  await test("a page of another site can do nothing with the session", async () => {
    const site = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<p>elsewhere"));
    await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
    // By name it is another site than the gateway, which goes by its address.
    await page.goto(`http://localhost:${site.address().port}/`);
    const answer = await page.evaluate(async (target) => {
      // Whether it had an effect is asked below.
      const sent = fetch(target, { method: "POST", credentials: "include", mode: "no-cors" });
      return sent.then((it) => it.type, () => "kept back");
    }, new URL("/auth/logout", links.ui).href);
    site.close();
    assert.equal(answer, "kept back", "the gateway's answers are for its own pages (Cross-Origin-Resource-Policy)");
    await page.goto(links.ui);
    assert.equal((await fromPage("GET", "/auth/me"))[0], 200, "still signed in");
  });
  console.log(`${passed} passed, 0 failed`);
} catch (error) {
  console.error(error);
  await page.screenshot({ path: join(tmpdir(), "gantry-browser-failure.png") }).catch(() => {});
  console.log(`${passed} passed, 1 failed`);
  process.exitCode = 1;
} finally {
  await browser.close();
  gateway.removeAllListeners("exit");
  // It writes to its folder until it is gone.
  const gone = new Promise((resolve) => gateway.once("exit", resolve));
  if (gateway.exitCode === null && gateway.kill()) await gone;
  rmSync(dir, { recursive: true, force: true });
}
