// Keys, organisations, users, limits and usage in the web UI, driven by roles and labels as a person would: a gateway of its
// own (the program in GANTRY) behind `vite preview` of ui/dist, and the Chromium given as argument. SHOTS=folder keeps pictures.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ui = new URL("../../ui/", import.meta.url).pathname;
const require = createRequire(join(ui, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
const PASSWORD = "correct horse battery";
const dir = mkdtempSync(join(tmpdir(), "gantry-access-"));
const started = [];

function start(program, args, options, wanted) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  started.push(child);
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${program} ended with ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const found = wanted.exec(line);
      if (found) resolve(found[1]);
    });
  });
}

mkdirSync(join(dir, "models"));
const gateway = await start(
  process.env.GANTRY,
  ["serve", "--demo"],
  {
    cwd: dir,
    env: {
      PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), MODELS_DIR: join(dir, "models"), RUST_LOG: "error",
      GATEWAY_LISTEN: "127.0.0.1:0", METRICS_LISTEN: "127.0.0.1:0", CONTAINER_RUNTIME: "process", STOP_MODELS_ON_SHUTDOWN: "true",
      ADMIN_BOOTSTRAP_USERNAME: "ada", ADMIN_BOOTSTRAP_PASSWORD: PASSWORD,
    },
  },
  /UI and API\s+(http\S+?)\/?$/,
);
const port = await freePort();
const base = `http://127.0.0.1:${port}/ui`;
await start(
  process.execPath,
  [require.resolve("vite/package.json").replace("package.json", "bin/vite.js"), "preview", "--port", port, "--strictPort", "--host", "127.0.0.1"],
  { cwd: ui, env: { ...process.env, GANTRY_URL: gateway, NO_COLOR: "1" } },
  /(Local)/,
);

const browser = await chromium.launch({
  executablePath: process.argv[2] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const complaints = [];
let passed = 0;

async function test(name, steps) {
  await steps();
  passed += 1;
  console.log(`ok ${name}`);
}

/** A browser of its own in which somebody signs in through the form. */
async function signedIn(username, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", locale: "en-GB", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("pageerror", (error) => complaints.push(`${username}: ${error}`));
  page.on("console", (message) => {
    // Refusals that a test provokes are answers, not faults.
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) complaints.push(`${username}: ${message.text()}`);
  });
  await page.goto(`${base}/login`);
  await page.getByLabel(/User name|Benutzername/).fill(username);
  await page.getByLabel(/^(Password|Passwort)$/).fill(PASSWORD);
  await page.getByRole("button", { name: /^(Sign in|Anmelden)$/ }).click();
  await page.getByRole("heading", { level: 1 }).filter({ hasText: /Overview|Überblick/ }).waitFor();
  return page;
}

/** Calls the API with the session of the page. */
const api = (page, method, path, body) =>
  page.evaluate(
    async ([method, path, body]) => {
      const headers = body ? { "content-type": "application/json" } : {};
      const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
      return [answer.status, await answer.json()];
    },
    [method, path, body],
  );

/** Has axe look at what is shown, in both themes. */
async function look(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.waitForTimeout(400);
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-${page.viewportSize().width}-${colorScheme}.png`) });
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag22aa"] }));
    const said = found.violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 150)).join(" | ")}`);
    assert.deepEqual(said, [], `axe on ${name}, ${colorScheme}`);
  }
}

const dialog = (page) => page.getByRole("dialog").last();
const row = (page, text) => page.getByRole("row").filter({ hasText: text });

try {
  if (process.env.SHOTS) mkdirSync(process.env.SHOTS, { recursive: true });
  const owner = await signedIn("ada");
  let token;

  await test("a key is made: bad input is said on its field, the token is shown once and works", async () => {
    await owner.getByRole("link", { name: "Keys" }).click();
    await owner.getByRole("button", { name: "My keys" }).or(owner.getByLabel("My keys")).first().waitFor();
    await look(owner, "keys");
    await owner.getByRole("button", { name: "Create key" }).click();
    const form = dialog(owner);
    await form.getByLabel("Name", { exact: true }).fill("laptop");
    await form.getByLabel("IP addresses").fill("10.0.0.300");
    await form.getByText("“10.0.0.300” is not an IP address or a CIDR range.").waitFor();
    await form.getByRole("button", { name: "Create key" }).click();
    assert.equal(await form.getByLabel("IP addresses").getAttribute("aria-invalid"), "true");
    await look(owner, "key-form");
    await form.getByRole("button", { name: "Remove 10.0.0.300" }).click();
    await form.getByLabel("IP addresses").fill("127.0.0.1, ::1");
    await form.getByLabel("Tokens a day").fill("100000");
    await owner.keyboard.press("Escape");
    await owner.getByRole("button", { name: "Cancel" }).last().click();
    assert.equal(await form.getByLabel("Name", { exact: true }).inputValue(), "laptop", "Escape loses nothing");
    await form.getByRole("button", { name: "Create key" }).click();
    const made = owner.getByRole("dialog", { name: "The key is created" });
    await made.waitFor();
    token = (await made.locator("code").first().textContent()).trim();
    assert.match(token, /^gty_/);
    await owner.keyboard.press("Escape");
    await made.getByRole("button", { name: "Test this key" }).click();
    await made.getByText("The key works.").waitFor();
    await made.getByLabel("Claude Code").check();
    await made.getByText(`ANTHROPIC_AUTH_TOKEN=${token}`).waitFor();
    await look(owner, "key-made");
    await made.getByRole("button", { name: "I have saved it" }).click();
    await made.waitFor({ state: "hidden" });
    assert.ok(!(await owner.content()).includes(token), "the token is gone from the page");
    await row(owner, "laptop").waitFor();
  });

  await test("what somebody else changed while a key is edited is shown, and stays when it is not touched here", async () => {
    await owner.getByRole("button", { name: "Open the key laptop" }).click();
    await look(owner, "key");
    await dialog(owner).getByRole("button", { name: "Edit" }).click();
    const form = owner.getByRole("dialog", { name: "Edit laptop" });
    await form.getByLabel("Name", { exact: true }).fill("desk");
    const [, keys] = await api(owner, "GET", "/auth/keys?q=laptop");
    await api(owner, "PATCH", `/admin/keys/${keys[0].id}`, { rpm_limit: 600 });
    await form.getByText("Somebody changed this meanwhile.").waitFor({ timeout: 20_000 });
    await look(owner, "key-changed");
    await form.getByRole("button", { name: "Save" }).click();
    await form.waitFor({ state: "hidden" });
    const [, after] = await api(owner, "GET", `/auth/keys?q=desk`);
    assert.equal(after[0].rpm_limit, 600);
    await owner.keyboard.press("Escape");
  });

  await test("organisations and users are made; the server's refusals land on their fields", async () => {
    await owner.getByRole("link", { name: "Organisations" }).click();
    await owner.getByRole("button", { name: "Create organisation" }).click();
    await dialog(owner).getByLabel("Name", { exact: true }).fill("Acme");
    await dialog(owner).getByLabel("Tokens a month").fill("1000000");
    await look(owner, "organisation-form");
    await dialog(owner).getByRole("button", { name: "Create organisation" }).click();
    await row(owner, "Acme").waitFor();
    await owner.getByRole("button", { name: "Open the organisation Acme" }).click();
    await dialog(owner).getByText("0 of 1 M").waitFor();
    await look(owner, "organisation");
    await owner.keyboard.press("Escape");
    await owner.getByRole("link", { name: "Users" }).click();
    const make = async (name, role) => {
      await owner.getByRole("button", { name: "Create user" }).click();
      const form = dialog(owner);
      await form.getByLabel("User name").fill(name);
      await form.getByLabel("Password", { exact: true }).fill("short");
      await form.getByRole("button", { name: "Create user" }).click();
      await form.getByText("Write 8 characters or more.").waitFor();
      await form.getByLabel("Password", { exact: true }).fill(PASSWORD);
      await form.getByLabel(role).check();
      await form.getByRole("combobox", { name: "Organisation" }).fill("Acm");
      await form.getByRole("option", { name: "Acme" }).click();
      return form;
    };
    let form = await make("olga", "Org admin");
    await look(owner, "user-form");
    await form.getByRole("button", { name: "Create user" }).click();
    await row(owner, "olga").waitFor();
    form = await make("olga", "Calls models and makes keys.");
    await form.getByRole("button", { name: "Create user" }).click();
    await form.getByRole("alert").first().waitFor();
    await form.getByLabel("User name").fill("uma");
    await form.getByLabel("Requests a minute").fill("60");
    await form.getByRole("button", { name: "Create user" }).click();
    await row(owner, "uma").waitFor();
    await look(owner, "users");
  });

  await test("the last owner can't be removed, and the page says why", async () => {
    await owner.getByRole("button", { name: "Open the user ada" }).click();
    await dialog(owner).getByText("This is the last owner").waitFor();
    assert.ok(await dialog(owner).getByRole("button", { name: "Delete" }).isDisabled());
    await look(owner, "last-owner");
    await owner.keyboard.press("Escape");
    await owner.getByRole("button", { name: "Open the user uma" }).click();
    await dialog(owner).getByRole("button", { name: "Delete" }).click();
    const asks = owner.getByRole("dialog", { name: "Delete uma?" });
    assert.ok(await asks.getByRole("button", { name: "Delete" }).isDisabled(), "the name is typed first");
    await look(owner, "user-delete");
    await asks.getByRole("button", { name: "Cancel" }).click();
    await owner.keyboard.press("Escape");
  });

  await test("usage shows the key's request, filters by it, and says the rows of a CSV before it is downloaded", async () => {
    // A stream, and a refusal.
    for (const [model, stream] of [["demo", true], ["no-such-model", false]]) {
      await fetch(`${gateway}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "Hello" }] }),
      }).then((it) => it.text());
    }
    const total = async () => (await api(owner, "GET", "/admin/usage?limit=10"))[1].length;
    for (let tries = 0; tries < 50 && (await total()) < 3; tries += 1) await owner.waitForTimeout(200);
    await owner.getByRole("link", { name: "Usage" }).click();
    await owner.getByRole("button", { name: "Show only no-such-model" }).first().waitFor();
    await look(owner, "usage");
    await owner.getByRole("button", { name: "Show only demo" }).last().click();
    await owner.waitForURL(/model=demo/);
    await row(owner, "no-such-model").first().waitFor({ state: "hidden" });
    await owner.getByRole("button", { name: /^Open the request/ }).first().click();
    await dialog(owner).getByText("Until the first token").waitFor();
    await look(owner, "request");
    await owner.keyboard.press("Escape");
    await owner.getByRole("button", { name: "Download CSV" }).click();
    const csv = owner.getByRole("dialog", { name: "Download these requests as CSV" });
    const count = Number(/^(\d+) rows/.exec(await csv.getByText(/^\d+ rows/).textContent())[1]);
    await look(owner, "csv");
    const [file] = await Promise.all([owner.waitForEvent("download"), csv.getByRole("button", { name: "Download" }).click()]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
    assert.equal(lines.length - 1, count);
    assert.ok(lines.slice(1).every((it) => it.includes("demo")), "the file has what is filtered, and no more");
    await owner.getByRole("button", { name: "Check now" }).click();
    await owner.getByText(/^Rows and sums agree/).waitFor();
    await owner.getByRole("button", { name: "Clear the filters" }).click();
    await row(owner, "no-such-model").first().waitFor();
  });

  await test("revoking names the last use, and ends the key at once", async () => {
    await owner.getByRole("link", { name: "Keys" }).click();
    await owner.getByRole("button", { name: "Open the key desk" }).click();
    await dialog(owner).getByRole("button", { name: "Revoke" }).click();
    const asks = owner.getByRole("dialog", { name: "Revoke the key desk?" });
    await asks.getByText(/It was last used/).waitFor();
    await look(owner, "revoke");
    await asks.getByRole("button", { name: "Revoke" }).click();
    await asks.waitFor({ state: "hidden" });
    await dialog(owner).getByText("Revoked").first().waitFor();
    assert.equal(await dialog(owner).getByRole("button", { name: "Edit" }).count(), 0);
    await owner.keyboard.press("Escape");
    await row(owner, "desk").getByText("Revoked").waitFor();
    const { status } = await fetch(`${gateway}/v1/models`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(status, 401);
    await owner.getByRole("searchbox", { name: "Search name or prefix" }).fill("nothing has this name");
    await owner.getByText("No key matches.").waitFor();
    await owner.getByRole("button", { name: "Clear the filters" }).click();
    await row(owner, "desk").waitFor();
  });

  await test("an org admin sees and does only what belongs to their organisation", async () => {
    const olga = await signedIn("olga");
    await olga.getByRole("link", { name: "Users" }).click();
    await row(olga, "uma").waitFor();
    assert.equal(await row(olga, "ada").count(), 0);
    await olga.getByRole("button", { name: "Create user" }).click();
    assert.equal(await dialog(olga).getByLabel("Admin", { exact: true }).count(), 0, "nobody gives a higher role");
    await dialog(olga).getByLabel("Org admin").check();
    assert.equal(await dialog(olga).getByLabel("Requests a minute").count(), 0, "nor limits of their equals");
    await olga.keyboard.press("Escape");
    await olga.getByRole("button", { name: "Discard" }).click();
    await olga.getByRole("link", { name: "Organisations" }).click();
    await row(olga, "Acme").waitFor();
    assert.equal(await olga.getByRole("button", { name: "Create organisation" }).count(), 0);
    await olga.getByRole("link", { name: "Usage" }).click();
    await olga.getByRole("heading", { name: "Requests" }).waitFor();
    assert.equal(await olga.getByRole("button", { name: "Check now" }).count(), 0);
    await look(olga, "usage-empty");
    await olga.context().close();
  });

  await test("a user has their own keys, usage and limits, also on a phone and in German", async () => {
    const uma = await signedIn("uma", { viewport: { width: 390, height: 844 }, locale: "de-DE" });
    await uma.goto(`${base}/keys`);
    await uma.getByText("Es gibt noch keinen Schlüssel.").waitFor();
    await look(uma, "own-keys-empty");
    await uma.getByRole("button", { name: "Schlüssel erstellen" }).first().click();
    assert.equal(await dialog(uma).getByText("Für wen er ist").count(), 0);
    await dialog(uma).getByLabel("Name", { exact: true }).fill("مفتاح 鍵 🔑");
    await dialog(uma).getByRole("button", { name: "Schlüssel erstellen" }).click();
    await uma.getByRole("button", { name: "Ich habe es gespeichert" }).click();
    await row(uma, "مفتاح").waitFor();
    await look(uma, "own-keys");
    await uma.goto(`${base}/usage`);
    await uma.getByText("Keine Anfrage passt.").waitFor();
    assert.equal(await uma.getByRole("button", { name: "CSV herunterladen" }).count(), 0);
    await look(uma, "own-usage");
    await uma.goto(`${base}/profile`);
    await uma.getByRole("meter", { name: "Anfragen je Minute" }).first().waitFor();
    await look(uma, "own-profile");
    await uma.goto(`${base}/users`);
    await uma.getByText("Diese Seite braucht die Rolle").waitFor();
    await uma.context().close();
  });

  await test("nothing complained under the content security policy", async () => assert.deepEqual(complaints, []));
  console.log(`${passed} passed, 0 failed`);
} catch (error) {
  console.error(error);
  for (const context of browser.contexts())
    for (const page of context.pages()) await page.screenshot({ path: join(tmpdir(), "gantry-access-failure.png") }).catch(() => {});
  console.log(`${passed} passed, 1 failed`);
  process.exitCode = 1;
} finally {
  await browser.close();
  for (const child of started) {
    child.removeAllListeners("exit");
    const gone = new Promise((resolve) => child.once("exit", resolve));
    if (child.exitCode === null && child.kill()) await gone;
  }
  rmSync(dir, { recursive: true, force: true });
}
