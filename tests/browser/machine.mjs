// Drives the pages of the machine (system, images, deployment, audit, settings, API reference) in the Chromium given as argument,
// by roles and labels only, on a real gateway: the program in GANTRY. They are served from ui/dist by `vite preview`, or from
// where UI says.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const uiDir = fileURLToPath(new URL("../../ui/", import.meta.url));
const require = createRequire(join(uiDir, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const gantry = process.env.GANTRY;
const PASSWORD = "correct horse battery";

const dir = mkdtempSync(join(tmpdir(), "gantry-machine-"));
const models = join(dir, "models");
mkdirSync(models);
mkdirSync(join(dir, "other-models"));
writeFileSync(join(models, "tiny.gguf"), Buffer.alloc(1_000_000));

/** Starts a program and returns the first match of `found` in what it prints. */
function start(command, args, options, found) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  const seen = new Promise((resolve, reject) => {
    child.on("exit", (code) => reject(new Error(`${command} ended with ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: Vite colours what it prints
      const match = found.exec(line.replace(/\u001b\[\d+m/g, ""));
      if (match) resolve(match[0]);
    });
  });
  return { child, seen };
}

const gateway = start(gantry, ["serve", "--demo"], {
  cwd: dir,
  env: {
    PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), MODELS_DIR: models, RUST_LOG: "error",
    GATEWAY_LISTEN: "127.0.0.1:0", METRICS_LISTEN: "127.0.0.1:0",
    CONTAINER_RUNTIME: "process", STOP_MODELS_ON_SHUTDOWN: "true",
    PRIMARY_ENGINE_COMMAND: `${gantry} engine-sim --flavour vllm`,
    SECONDARY_ENGINE_COMMAND: `${gantry} engine-sim --flavour llamacpp`,
    ADMIN_BOOTSTRAP_USERNAME: "ada", ADMIN_BOOTSTRAP_PASSWORD: PASSWORD,
  },
}, /http:\/\/127\.0\.0\.1:\d+(?=\/?$)/);
const api = await gateway.seen;
let preview;
let ui = process.env.UI;
if (!ui) {
  preview = start(process.execPath, [join(uiDir, "node_modules/vite/bin/vite.js"), "preview", "--host", "127.0.0.1", "--port", "0"], {
    cwd: uiDir, env: { ...process.env, GANTRY_URL: api },
  }, /http:\/\/127\.0\.0\.1:\d+/);
  ui = `${await preview.seen}/ui`;
}

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-GB", reducedMotion: "reduce" });
const page = await context.newPage();
page.setDefaultTimeout(15_000);
const complaints = [];
page.on("pageerror", (error) => complaints.push(String(error)));

let passed = 0;
async function test(name, steps) {
  await steps();
  passed += 1;
  console.log(`ok ${name}`);
}

const button = (name) => page.getByRole("button", { name, exact: true });
const see = (text) => page.getByText(text).first().waitFor();

/** Checks what is on the screen in both themes. */
async function accessible(what) {
  // `theme.js` follows the system; a change of it takes no reload.
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.waitForTimeout(150);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag22aa"] }));
    assert.deepEqual(violations.map((it) => `${it.id}: ${it.nodes[0]?.html}`), [], `${what} in ${colorScheme}`);
  }
}

async function signIn(username) {
  await context.clearCookies();
  await page.goto(`${ui}/login`);
  await page.getByLabel("User name").fill(username);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await button("Sign in").click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

const send = (method, path, body) =>
  page.evaluate(async ([method, path, body]) => {
    const answer = await fetch(path, { method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
    return answer.status;
  }, [method, path, body]);

try {
  await signIn("ada");
  assert.equal(await send("POST", "/admin/users", { username: "grace", password: PASSWORD, role: "admin", org_id: 1 }), 201);
  assert.equal(await send("POST", "/admin/users", { username: "joan", password: PASSWORD, role: "user", org_id: 1 }), 201);
  assert.equal(await send("POST", "/admin/models", { served_name: "tiny", engine_type: "llamacpp", local_path: "tiny.gguf", force: true }), 201);
  // A gateway that has no such operation yet answers with what `gantry settings` would print.
  if (await send("GET", "/admin/system/settings") === 404) {
    const setting = (name, value, source) => ({ name, group: "Data", doc: "What it does.", allowed: "a text", default: "", value, source });
    const body = JSON.stringify([setting("AUDIT_RETENTION_DAYS", "365", "default"), setting("SECRETS_KEY", "***", "environment"), setting("MODELS_DIR", models, "environment")]);
    await context.route("**/admin/system/settings", (route) => route.fulfill({ contentType: "application/json", body }));
  }

  await test("settings are found by words, and show where they come from and how they are changed", async () => {
    await page.goto(`${ui}/settings`);
    await see("AUDIT_RETENTION_DAYS");
    await page.getByLabel("Changed only").check();
    await page.getByText("AUDIT_RETENTION_DAYS").waitFor({ state: "detached" });
    await page.getByRole("searchbox", { name: "Search settings" }).fill("secrets key");
    await see("set, not shown");
    await page.waitForURL(/q=secrets/);
    await button("How to change SECRETS_KEY").click();
    await see("SECRETS_KEY_FILE=/etc/gantry/secrets_key");
    await accessible("settings");
  });

  await test("the models folder is changed, and a path that is none is refused on its field", async () => {
    await page.goto(`${ui}/settings`);
    await button("Change folder").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("tiny", { exact: true }).waitFor();
    await dialog.getByLabel("Folder").fill(join(dir, "nowhere"));
    await dialog.getByRole("button", { name: "Change folder" }).click();
    await dialog.getByRole("alert").waitFor();
    assert.equal(await dialog.getByLabel("Folder").getAttribute("aria-invalid"), "true");
    await accessible("the dialog of the models folder");
    await dialog.getByLabel("Folder").fill(join(dir, "other-models"));
    await dialog.getByRole("button", { name: "Change folder" }).click();
    await see(/an owner’s choice/);
    await button("Change folder").click();
    await button("Use MODELS_DIR again").click();
    await page.getByRole("dialog").getByRole("button", { name: "Change folder" }).click();
    await see("the setting MODELS_DIR");
  });

  await test("system shows the host, the checks, and probes upstreams", async () => {
    await page.goto(`${ui}/system`);
    await see("Keys, sessions and models");
    await see("This gateway supervises");
    await see("procfs");
    await page.getByRole("radio", { name: "15 min" }).check();
    await page.waitForURL(/minutes=15/);
    await button("Probe all").click();
    await see(/engines? w(as|ere) probed/);
    await button("Details of demo").click();
    await see("Models that it lists");
    await accessible("system");
  });

  await test("images give one verdict", async () => {
    await page.goto(`${ui}/images`);
    await see("Everything that a model starts with is on this machine.");
    await page.getByRole("link", { name: "tiny" }).waitFor();
    await accessible("images");
  });

  await test("a package is exported, and its size is known before", async () => {
    await page.goto(`${ui}/deployment`);
    await page.getByRole("link", { name: "Export a package" }).click();
    await page.getByLabel("Package folder").fill("first");
    await see(/^About /);
    await see("gantry package export first --models --hub-cache");
    await accessible("the export");
    await button("Export").click();
    await page.getByRole("tab", { name: "Jobs" }).click();
    await see("Completed");
    await page.getByRole("table").getByRole("button", { name: "Export" }).click();
    await see("SHA-256 of the manifest");
    await accessible("a job");
  });

  await test("an import says first what it would do", async () => {
    assert.equal(await send("DELETE", "/admin/models/2"), 200);
    await page.goto(`${ui}/deployment?tab=import&dir=first`);
    await button("Check the package").click();
    const diff = page.getByRole("list", { name: "What an import would do" });
    await diff.getByText("New").first().waitFor();
    await diff.getByText("tiny", { exact: true }).waitFor();
    await page.getByLabel("Hub cache").uncheck();
    await see("You changed something since: check again.");
    assert.ok(await button("Import").isDisabled());
    await page.getByLabel("Hub cache").check();
    await accessible("the dry run");
    await button("Import").click();
    await see("The job has begun.");
    await page.getByRole("tab", { name: "Jobs" }).click();
    await page.getByRole("table").getByRole("button", { name: "Import" }).waitFor();
  });

  await test("a folder that is no package is refused on its field", async () => {
    await page.goto(`${ui}/deployment?tab=import&dir=nowhere`);
    await button("Check the package").click();
    await page.getByRole("alert").first().waitFor();
    assert.equal(await page.getByLabel("Package folder").inputValue(), "nowhere");
  });

  await test("one model is imported under another name", async () => {
    await page.goto(`${ui}/deployment?tab=import&dir=first`);
    await page.getByRole("row", { name: /tiny/ }).getByRole("button", { name: "Import this model" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Served name").fill("tiny-again");
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.getByText("This can be imported.").waitFor();
    await accessible("the import of a model");
    await dialog.getByRole("button", { name: "Import", exact: true }).click();
    await see("tiny-again was imported.");
  });

  await test("a restore is proven, asks for the host, and the page survives the end of the session", async () => {
    await page.goto(`${ui}/deployment?tab=restore&dir=first`);
    await button("Check the dump").click();
    await see("The dump is complete and can be restored.");
    assert.ok(await button("Restore").isDisabled(), "this database has users");
    await page.getByLabel("Replace what is in the database").check();
    await button("Restore").click();
    const dialog = page.getByRole("dialog");
    const confirm = dialog.getByRole("button", { name: "Restore the database" });
    assert.ok(await confirm.isDisabled());
    await accessible("the confirmation of a restore");
    await dialog.getByRole("textbox").fill(new URL(ui).host);
    await confirm.click();
    const again = page.getByRole("dialog", { name: "You are signed out" });
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await again.getByRole("button", { name: "Sign in", exact: true }).click();
    await again.waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Package folder").inputValue(), "first");
    await page.getByRole("tab", { name: "Jobs" }).click();
    await page.getByRole("table").getByRole("button", { name: "Restore of the database" }).click();
    await see("Owners who can sign in: 1");
    await accessible("what was proven");
  });

  await test("the audit log is filtered through the address, and shows what changed", async () => {
    assert.equal(await send("PATCH", "/admin/models/2", { stream_idle_timeout_sec: 123 }), 200);
    await page.goto(`${ui}/audit?action=model.change`);
    await see("1 of 1 rows");
    await button("ada changed a model").click();
    const drawer = page.getByRole("dialog");
    await drawer.getByRole("row", { name: "stream_idle_timeout_sec 300 123" }).waitFor();
    await accessible("a row of the audit log");
    await drawer.getByRole("link", { name: "All rows of this object" }).click();
    await page.waitForURL(/object_type=model&object_id=2/);
    await page.keyboard.press("Escape");
    await button("Clear filters").click();
    await see(/links between the rows that are loaded hold/);
    await accessible("audit");
    await send("PATCH", "/admin/models/2", { stream_idle_timeout_sec: 124 });
    await page.getByRole("button", { name: /^Show .*new rows?$/ }).click();
    await page.getByRole("button", { name: "ada changed a model" }).nth(1).waitFor();
  });

  await test("the API reference finds, explains and tries an operation", async () => {
    await page.goto(`${ui}/api-reference`);
    await page.getByRole("searchbox", { name: "Search operations" }).fill("list models");
    await page.getByRole("button", { name: /List models/ }).click();
    await see(`curl '${new URL(ui).origin}/admin/models'`);
    await page.getByLabel("limit").fill("1");
    await button("Send").click();
    await see(/^200 in/);
    await accessible("the API reference");
  });

  await test("an admin sees what they may do, and a user which role a page takes", async () => {
    await signIn("grace");
    await page.goto(`${ui}/deployment?tab=import&dir=first`);
    await see(/Only an owner can begin this/);
    assert.equal(await button("Check the package").count(), 0);
    assert.equal(await page.getByRole("button", { name: "Import this model" }).count(), 0);
    await page.goto(`${ui}/settings`);
    await see("the setting MODELS_DIR");
    assert.equal(await button("Change folder").count(), 0);
    await signIn("joan");
    for (const path of ["system", "images", "deployment", "audit", "settings"]) {
      await page.goto(`${ui}/${path}`);
      await see("This page needs the role “Admin”.");
    }
    await page.goto(`${ui}/api-reference?op=listModels`);
    await see("Your role may not call this: it takes Admin.");
    assert.equal(await button("Send").count(), 0);
  });

  assert.deepEqual(complaints, []);
  console.log(`${passed} passed`);
} catch (error) {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, "failed.png") });
  throw error;
} finally {
  await browser.close();
  for (const { child } of [preview, gateway].filter(Boolean)) {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.removeAllListeners("exit");
    child.once("exit", () => {});
    child.kill("SIGTERM");
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 5000))]);
  }
  rmSync(dir, { recursive: true, force: true });
}
