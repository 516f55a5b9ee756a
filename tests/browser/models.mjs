// Drives the pages of models in the Chromium given as argument, as somebody does it: by roles and labels only. The gateway is
// the program in GANTRY with the simulator as its engines; the pages are ui/dist, served by `vite preview` with that gateway behind it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const root = join(import.meta.dirname, "../..");
const program = process.env.GANTRY;
const fixtures = process.env.GGUF ?? join(root, "target/fixtures");
const password = "correct horse battery";
const dir = mkdtempSync(join(tmpdir(), "gantry-models-"));
mkdirSync(join(dir, "models/llamas"), { recursive: true });
for (const name of ["tiny-llama-Q8_0.gguf", "tiny-llama-F16.gguf"]) copyFileSync(join(fixtures, name), join(dir, "models/llamas", name));

const started = [];
const run = (command, args, options) => {
  const child = spawn(command, args, { cwd: dir, stdio: ["ignore", "pipe", "inherit"], ...options });
  started.push(child);
  return child;
};
const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
const lineOf = (child, wanted) =>
  new Promise((resolve, reject) => {
    child.on("exit", (code) => reject(new Error(`it ended with ${code} before it was ready`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const plain = line.replace(/\u001b\[[0-9;]*m/g, "");
      if (wanted.test(plain)) resolve(/https?:\/\/[^\s/]+/.exec(plain)?.[0]);
    });
  });

const simulator = (flavour) => `${program} engine-sim --flavour ${flavour}`;
const gateway = run(program, ["serve"], {
  env: {
    PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), MODELS_DIR: join(dir, "models"), RUST_LOG: "error",
    GATEWAY_LISTEN: "127.0.0.1:0", METRICS_LISTEN: "127.0.0.1:0", OFFLINE_MODE: "true",
    CONTAINER_RUNTIME: "process", STOP_MODELS_ON_SHUTDOWN: "true",
    PRIMARY_ENGINE_COMMAND: simulator("vllm"), SECONDARY_ENGINE_COMMAND: simulator("llamacpp"),
    ADMIN_BOOTSTRAP_USERNAME: "ada", ADMIN_BOOTSTRAP_PASSWORD: password,
  },
});
const gatewayUrl = await lineOf(gateway, /UI and API/);
const port = await freePort();
const vite = run(join(root, "ui/node_modules/.bin/vite"), ["preview", "--port", String(port), "--strictPort", "--host", "127.0.0.1"], {
  cwd: join(root, "ui"),
  env: { ...process.env, GANTRY_URL: gatewayUrl },
});
const ui = `${await lineOf(vite, /Local:/)}/ui`;

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const axe = readFileSync(join(root, "ui/node_modules/axe-core/axe.min.js"), "utf8");
const complaints = [];
let passed = 0;

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // Refusals that a test provokes are answers, not faults.
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) complaints.push(message.text());
  });
  return page;
}

async function test(name, steps) {
  await steps();
  passed += 1;
  console.log(`ok ${name}`);
}

/** Checks what is shown for accessibility, in both themes. */
async function clean(page, what) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag22aa"] }));
    const found = violations.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    assert.deepEqual(found, [], `${what}, ${scheme}`);
  }
}

const page = await open();
const button = (name, exact = true) => page.getByRole("button", { name, exact });
const row = (name) => page.getByRole("row", { name });
const call = (method, path, body) =>
  page.evaluate(
    async ([method, path, body]) => {
      const answer = await fetch(path, { method, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body) });
      return [answer.status, await answer.json().catch(() => null)];
    },
    [method, path, body],
  );

try {
  await test("somebody signs in, and the empty list says how to add a model", async () => {
    await page.goto(`${ui}/models`);
    await page.getByLabel("User name").fill("ada");
    await page.getByLabel("Password", { exact: true }).fill(password);
    await button("Sign in").click();
    await page.getByText("Gantry runs no model yet.").waitFor();
    await clean(page, "the empty list");
  });

  await test("from a file in the models folder to a running model it takes three decisions", async () => {
    await page.getByRole("link", { name: "Add a model" }).first().click();
    const folder = page.getByRole("button", { name: /llamas/ });
    await folder.getByText("llama.cpp").waitFor();
    await clean(page, "the models folder");
    await folder.click();
    await page.getByRole("radio", { name: /Q8_0/ }).check();
    await page.getByText("Nothing speaks against a start.").waitFor();
    await clean(page, "the form");
    await button("Save and start").click();
    await page.getByRole("heading", { name: "tiny-llama-Q8_0", level: 1 }).waitFor();
    await page.getByRole("banner").or(page.locator("header")).getByText("Running").first().waitFor();
    await clean(page, "a running model");
  });

  await test("settings change the command that is shown, what is changed is marked and can be reset", async () => {
    await page.goto(`${ui}/models/new?pick=llamas`);
    await page.getByRole("textbox", { name: /context_size/ }).fill("4096");
    await page.getByRole("mark").or(page.locator("mark")).getByText("--ctx-size 4096").waitFor();
    await button("Reset context_size").click();
    await page.getByRole("region", { name: "Command" }).getByText("--ctx-size 8192").waitFor();
    await page.getByLabel("Find a setting").fill("seed");
    await page.getByRole("textbox", { name: "seed" }).waitFor();
  });

  await test("what the gateway refuses lands on its field, and nothing typed is lost", async () => {
    await page.getByLabel("Served name").fill("tiny-llama-Q8_0");
    await button("Save", true).click();
    await page.getByRole("alert").filter({ hasText: /is served as/ }).first().waitFor();
    assert.equal(await page.getByLabel("Served name").inputValue(), "tiny-llama-Q8_0");
  });

  await test("a failure shows cause and setting on its row, and leads to the setting that mends it", async () => {
    const [status] = await call("POST", "/admin/models", {
      local_path: "llamas/tiny-llama-F16.gguf", served_name: "mended", extra_args: ["--bogus-flag"],
    });
    assert.equal(status, 201);
    await page.goto(`${ui}/models`);
    await row(/mended/).hover();
    await button("Start: mended").click();
    await page.getByText("Argument unknown to this version").first().waitFor();
    await clean(page, "the list with a failure");
    await page.getByRole("link", { name: "Why" }).click();
    await page.getByRole("log").getByText("--bogus-flag").waitFor();
    await clean(page, "the log of a failure");
    await page.getByRole("link", { name: "Choose extra_args" }).click();
    await page.getByRole("textbox", { name: /extra_args/ }).fill("");
    await button("Save and apply").click();
    await clean(page, "the question before applying");
    await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
    await page.locator("header").getByText("Running").first().waitFor();
  });

  await test("a start shows its phases and its log; a value that the diagnosis knows is used from the row", async () => {
    const record = { local_path: "llamas/tiny-llama-F16.gguf" };
    await call("POST", "/admin/models", { ...record, served_name: "slow", extra_args: ["--sim-load-seconds", "8"] });
    await call("POST", "/admin/models", { ...record, served_name: "greedy", extra_args: ["--sim-crash-at-start", "--sim-crash-log", "oom"] });
    await page.goto(`${ui}/models`);
    await row(/slow/).hover();
    await button("Start: slow").click();
    const start = page.getByRole("region", { name: "Start of slow" });
    await start.getByRole("listitem").filter({ hasText: "Weights" }).and(page.locator("[aria-current=step]")).waitFor();
    await start.getByRole("log").getByText("loading model").waitFor();
    await start.getByText("no earlier start to compare with").waitFor();
    await clean(page, "the list while a model starts");
    await row(/greedy/).hover();
    await button("Start: greedy").click();
    await page.getByText("GPU out of memory").first().waitFor();
    await button("Set context_size to 4096 and start").click();
    await page.getByText("greedy is changed and starting.").waitFor();
    const [, models] = await call("GET", "/admin/models");
    assert.equal(models.find((it) => it.served_name === "greedy").context_size, 4096);
    for (const it of models.filter((it) => ["slow", "greedy"].includes(it.served_name))) await call("DELETE", `/admin/models/${it.id}`);
    await row(/greedy/).waitFor({ state: "detached" });
  });

  await test("the log is searched by keyboard, and its text is filtered by level", async () => {
    await page.goto(`${ui}/models/1?tab=logs`);
    await page.getByRole("log").getByText("listening on").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("model");
    await page.getByText(/^\d+ of \d+$/).waitFor();
    const before = await page.getByText(/^\d+ of \d+$/).textContent();
    await page.keyboard.press("Enter");
    await page.waitForFunction((old) => !document.body.innerText.includes(old), before);
  });

  await test("a test request shows what was sent, what came back and how long it took", async () => {
    await page.goto(`${ui}/models/1?tab=test`);
    await button("Send a test request").click();
    await page.getByText("The engine answered").waitFor();
    await page.getByText('"finish_reason"').waitFor();
    await clean(page, "a test");
  });

  await test("metrics and the timeline are there", async () => {
    await page.getByRole("tab", { name: "Metrics" }).click();
    await page.getByText("Time to first token").first().waitFor();
    await clean(page, "metrics");
    await page.getByRole("tab", { name: "Timeline" }).click();
    await page.getByRole("row", { name: /Running/ }).first().waitFor();
    await clean(page, "the timeline");
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page.getByRole("textbox", { name: /context_size/ }).waitFor();
    await clean(page, "the configuration");
  });

  await test("when somebody else changes the record meanwhile, both values are shown", async () => {
    await page.getByRole("textbox", { name: /context_size/ }).fill("2048");
    await call("PATCH", "/admin/models/1", { context_size: 1024, seed: 7 });
    await page.getByText("Somebody changed this model meanwhile").waitFor({ timeout: 30_000 });
    assert.equal(await page.getByRole("textbox", { name: /context_size/ }).inputValue(), "2048");
  });

  await test("an engine elsewhere is added, shown with its health, and removed", async () => {
    await page.goto(`${ui}/models`);
    await button("Add an engine elsewhere").click();
    await clean(page, "the dialog of an engine elsewhere");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Served name").fill("cloud/large");
    await dialog.getByLabel("Addresses").fill("not a url");
    await dialog.getByRole("button", { name: "Add" }).click();
    await dialog.getByRole("alert").first().waitFor();
    await dialog.getByLabel("Addresses").fill("http://127.0.0.1:9");
    await dialog.getByRole("button", { name: "Add" }).click();
    await row(/cloud\/large/).getByText("Unhealthy").waitFor();
    await button("Details of cloud/large").click();
    await page.getByText("http://127.0.0.1:9").first().waitFor();
    await row(/cloud\/large/).hover();
    await button("Remove: cloud/large").click();
    await clean(page, "the question before removing");
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await row(/cloud\/large/).waitFor({ state: "detached" });
  });

  await test("several models are stopped at once, by keyboard only", async () => {
    await page.getByRole("checkbox", { name: "Select all that are shown" }).focus();
    await page.keyboard.press("Space");
    await page.getByRole("group", { name: "2 models selected" }).getByRole("button", { name: "Stop" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Stop" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^Stopped 2$/ }).waitFor();
  });

  await test("a model is deleted only after its name was typed", async () => {
    await page.getByRole("link", { name: "mended" }).click();
    await button("More").click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    const remove = page.getByRole("dialog").getByRole("button", { name: "Delete" });
    assert.equal(await remove.isDisabled(), true);
    await page.getByLabel("Type mended to confirm").fill("mended");
    await clean(page, "the question before deleting");
    await remove.click();
    await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
    await row(/mended/).waitFor({ state: "detached" });
  });

  await test("it all fits on a phone, and in German", async () => {
    const phone = await open({ viewport: { width: 390, height: 800 }, locale: "de-DE", storageState: await page.context().storageState() });
    for (const path of ["/models", "/models/new?pick=llamas", "/models/1", "/models/1?tab=configuration", "/models/1?tab=logs", "/models/1?tab=metrics"]) {
      await phone.goto(`${ui}${path}`);
      await phone.getByRole("heading", { level: 1 }).waitFor();
      await phone.waitForTimeout(800);
      const over = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${path} is ${over} px too wide`);
      await clean(phone, `${path} on a phone`);
    }
    await phone.getByRole("tab", { name: "Protokoll" }).waitFor();
  });

  await test("the pages work under their content security policy without a complaint", () => {
    assert.deepEqual(complaints, []);
  });
  console.log(`${passed} passed`);
} catch (error) {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, "failed.png"), fullPage: true });
  throw error;
} finally {
  await browser.close();
  for (const it of started) it.kill();
  await new Promise((done) => (gateway.exitCode === null ? gateway.on("exit", done) : done()));
  rmSync(dir, { recursive: true, force: true });
}
