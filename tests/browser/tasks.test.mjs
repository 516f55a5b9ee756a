// The five tasks of docs/web-ui-tasks.md, as a person does them who has never seen Gantry: from the overview, by what is written
// on the page. Everything is found by its role, its label or its text; only the first address is typed. A decision is a click or
// a field that is filled in. After each dialog the focus is somewhere, for those who go on with the keyboard.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { heading, step, until } from "./harness.mjs";
import { BROKEN, NEW, PEOPLE, startSheet, USED } from "./sheet.mjs";

const ENGLISH = {
  locale: "en-GB", overview: "Overview", navigation: "Main navigation",
  add: "Add a model", saveStart: "Save and start", tryIt: "Try in playground", question: "Question", conversation: "Conversation",
  users: "Users", createUser: "Create user", userName: "User name", generate: "Generate", copyPassword: "Copy the password",
  openUser: (name) => `Open the user ${name}`, createAKey: "Create a key", createKey: "Create key", name: "Name", models: "Models",
  month: "Tokens a month", copyToken: "Copy the token", saved: "I have saved it", keys: "Keys", spent: "Month: 0 of 50 k",
  change: "Change extra_args", saveApply: "Save and apply", apply: "Apply", running: "Running", healthy: /^All 3 models are serving/,
  usage: "Usage", range: /^Time range:/, week: "Last 7 days", by: "Breakdown by", user: "User", only: (name) => `Show only ${name}`,
  csv: "Download CSV", sums: "Sums as in the breakdown: User", download: "Download",
  take: "Export and import", exportOne: "Export a package", folder: "Package folder", export: "Export", completed: "Completed",
};
const GERMAN = {
  locale: "de-DE", overview: "Überblick", navigation: "Hauptnavigation",
  add: "Modell hinzufügen", saveStart: "Speichern und starten", tryIt: "Ausprobieren", question: "Frage", conversation: "Unterhaltung",
  users: "Benutzer", createUser: "Benutzer erstellen", userName: "Benutzername", generate: "Erzeugen", copyPassword: "Passwort kopieren",
  openUser: (name) => `Benutzer ${name} öffnen`, createAKey: "Schlüssel erstellen", createKey: "Schlüssel erstellen", name: "Name",
  models: "Modelle", month: "Tokens je Monat", copyToken: "Token kopieren", saved: "Ich habe es gespeichert", keys: "Schlüssel",
  spent: "Monat: 0 von 50.000",
  change: "extra_args ändern", saveApply: "Speichern und anwenden", apply: "Anwenden", running: "Läuft", healthy: /^Alle 3 Modelle/,
  usage: "Nutzung", range: /^Zeitraum:/, week: "Letzte 7 Tage", by: "Aufteilung nach", user: "Benutzer", only: (name) => `Nur ${name} zeigen`,
  csv: "CSV herunterladen", sums: "Summen wie in der Aufteilung: Benutzer", download: "Herunterladen",
  take: "Export und Import", exportOne: "Ein Paket exportieren", folder: "Ordner des Pakets", export: "Exportieren", completed: "Fertig",
};

export default async function () {
  await walk(ENGLISH);
  await walk(GERMAN);
}

async function walk(words) {
  const gateway = await startSheet();
  const page = await gateway.page({ as: "ada", locale: words.locale });
  await page.goto(`${gateway.ui}/`);
  const main = page.getByRole("main");
  const dialog = page.getByRole("dialog");
  const rail = page.getByRole("navigation", { name: words.navigation });
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const link = (name, on = page) => on.getByRole("link", { name, exact: true });
  let decisions = 0;
  const press = (what) => {
    decisions += 1;
    return what.click();
  };
  const write = (label, text, on = dialog) => {
    decisions += 1;
    return on.getByLabel(label, { exact: true }).fill(text);
  };
  const pasted = () => page.evaluate(() => navigator.clipboard.readText());
  const focusStays = () =>
    until("the focus", () => page.evaluate(() => document.activeElement !== document.body && document.activeElement.isConnected));
  const task = (name, steps) =>
    step(`${words.locale}: ${name}`, async () => {
      await link(words.overview, rail).click();
      await heading(page, words.overview).waitFor();
      decisions = 0;
      const began = performance.now();
      await steps();
      console.log(`    ${decisions} decisions, ${((performance.now() - began) / 1000).toFixed(1)} s`);
    });

  await task("a model of the models folder answers", async () => {
    await press(link(words.add, main).first());
    await press(page.getByRole("button", { name: new RegExp(`^${NEW}`) }));
    await press(button(words.saveStart));
    await press(link(words.tryIt, main));
    assert.ok(decisions <= 4, `${decisions} decisions until a question can be asked`);
    const question = page.getByLabel(words.question, { exact: true });
    await question.fill("How does a gantry crane work?");
    await question.press("Enter");
    const answers = page.getByRole("log", { name: words.conversation });
    await answers.getByText("TTFT").waitFor();
    await answers.getByText(NEW, { exact: true }).first().waitFor();
  });

  await task("a colleague has an account, and a key for this model only, with a budget", async () => {
    await press(link(words.users, rail));
    await press(button(words.createUser));
    await write(words.userName, "dora");
    await press(button(words.generate));
    await press(button(words.copyPassword));
    const password = await pasted();
    await press(button(words.createUser, dialog));
    await dialog.waitFor({ state: "detached" });
    await focusStays();
    await press(button(words.openUser("dora")));
    await press(link(words.createAKey, dialog));
    await write(words.name, "laptop of dora");
    await write(words.models, NEW);
    await write(words.month, "50000");
    await press(button(words.createKey, dialog));
    await press(button(words.copyToken));
    const token = await pasted();
    await press(button(words.saved));
    await dialog.waitFor({ state: "detached" });
    await focusStays();
    const row = page.getByRole("row").filter({ hasText: "laptop of dora" });
    await row.getByText("dora", { exact: true }).waitFor();
    await row.getByText(NEW, { exact: true }).waitFor();
    await row.getByRole("meter").waitFor();
    await gateway.as("dora", password);
    const ask = (model) =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
      }).then((answer) => answer.status);
    assert.equal(await ask(NEW), 200);
    assert.ok([403, 404].includes(await ask(USED)), "no other model may be called");
  });

  await task("a model that does not start says why, and is mended", async () => {
    await press(link(BROKEN, main));
    await heading(page, BROKEN).waitFor();
    await main.getByText("--no-such-argument").first().waitFor();
    await press(link(words.change, main));
    decisions += 1;
    await page.getByRole("textbox", { name: /^extra_args/ }).fill("");
    await press(button(words.saveApply));
    await press(button(words.apply, dialog));
    await dialog.waitFor({ state: "detached" });
    await focusStays();
    await main.getByText(words.running, { exact: true }).first().waitFor();
    await link(words.overview, rail).click();
    await page.getByText(words.healthy).waitFor();
  });

  await task("who used how many tokens in seven days is known, and in a file", async () => {
    await press(link(words.usage, rail));
    await press(page.getByRole("button", { name: words.range }));
    await press(button(words.week));
    await press(page.getByRole("group", { name: words.by }).getByRole("radio", { name: words.user, exact: true }));
    const tokens = {};
    for (const [name, requests] of Object.entries(PEOPLE)) {
      const row = page.getByRole("row").filter({ has: page.getByRole("button", { name: words.only(name), exact: true }) });
      await row.getByRole("cell", { name: String(requests), exact: true }).waitFor();
      const cells = await row.getByRole("cell").allTextContents();
      tokens[name] = Number(cells[6].replace(/\D/g, ""));
      assert.ok(tokens[name] > 0, cells.join(" | "));
    }
    await press(button(words.csv));
    await press(dialog.getByRole("radio", { name: words.sums, exact: true }));
    const [file] = await Promise.all([page.waitForEvent("download"), press(button(words.download, dialog))]);
    await dialog.waitFor({ state: "detached" });
    await focusStays();
    const [head, ...lines] = readFileSync(await file.path(), "utf8").trim().split("\n").map((it) => it.split(","));
    assert.deepEqual([head[0], head[7]], ["user", "total_tokens"]);
    const inFile = Object.fromEntries(lines.map((it) => [it[0], Number(it[7])]));
    assert.deepEqual({ ...inFile, ...tokens }, inFile);
  });

  await task("the installation is in a package, and what is in it is seen", async () => {
    await press(link(words.take, rail));
    await press(link(words.exportOne));
    await focusStays();
    await write(words.folder, "disk", main);
    await press(button(words.export, main));
    const jobs = page.getByRole("table");
    await jobs.getByText(words.completed, { exact: true }).waitFor();
    await focusStays();
    await press(jobs.getByRole("button", { name: /^Export/ }));
    for (const name of [NEW, USED, BROKEN]) await jobs.getByText(name, { exact: true }).first().waitFor();
    assert.ok(existsSync(join(gateway.packages, "disk", "manifest.json")));
  });

  await page.close();
}
