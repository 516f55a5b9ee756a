// The machine: settings, the host, images, packages and restores, the audit log, and the reference of the API.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, look, PASSWORD, startGateway, step, until } from "./harness.mjs";

export default async function () {
  const gateway = await startGateway({ demo: true, settings: { SECRETS_KEY: "ab".repeat(32) } });
  const elsewhere = join(gateway.dir, "other-models");
  mkdirSync(elsewhere);
  writeGguf(join(gateway.models, "tiny.gguf"));
  let api = await gateway.as();
  const { id: org } = (await api("GET", "/admin/orgs"))[0];
  await api("POST", "/admin/users", { username: "grace", password: PASSWORD, role: "admin", org_id: org });
  await api("POST", "/admin/users", { username: "joan", password: PASSWORD, role: "user", org_id: org });
  await api("POST", "/admin/models", { served_name: "tiny", engine_type: "llamacpp", local_path: "tiny.gguf", force: true });
  const idOf = async (name) => (await api("GET", "/admin/models")).find((it) => it.served_name === name).id;
  const page = await gateway.page({ as: "ada" });
  const main = page.getByRole("main");
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const see = (text, on = page) => on.getByText(text).first().waitFor();
  const dialog = page.getByRole("dialog");
  const tab = async (name) => page.getByRole("tab", { name, exact: true }).click();
  const open = async (path, title, on = page) => {
    await on.goto(`${gateway.ui}${path}`);
    await heading(on, title).waitFor();
  };

  await step("settings are found by words, and show where they come from and how they are changed", async () => {
    await open("/settings", "Settings");
    await see("AUDIT_RETENTION_DAYS");
    // One group of eight, by keyboard.
    await page.getByRole("group", { name: "Only these groups" }).getByRole("button", { name: /^Tracing/ }).focus();
    await page.keyboard.press("Space");
    await page.waitForURL(/group=Tracing/);
    await page.getByText("GATEWAY_LISTEN", { exact: true }).waitFor({ state: "detached" });
    await page.keyboard.press("Space");
    await see("GATEWAY_LISTEN");
    await page.getByLabel("Changed only").check();
    await page.getByText("AUDIT_RETENTION_DAYS").waitFor({ state: "detached" });
    await look(page, "settings");
    await page.getByRole("searchbox", { name: "Search settings" }).fill("secrets key");
    await see("set, not shown");
    await page.waitForURL(/q=secrets/);
    await button("How to change SECRETS_KEY").click();
    await see("SECRETS_KEY_FILE=/etc/gantry/secrets_key");
    await look(page, "setting");
    await page.getByRole("searchbox", { name: "Search settings" }).fill("no such setting");
    await see("No setting matches.");
  });

  await step("settings are explained in German on a German page, where German words find them", async () => {
    const german = await gateway.page({ as: "ada", locale: "de-DE" });
    await german.goto(`${gateway.ui}/settings`);
    await see("Adresse der Prometheus-Metriken.", german);
    await german.getByRole("group", { name: "Nur diese Gruppen" }).getByRole("button", { name: /^Anmeldung/ }).waitFor();
    await german.getByRole("searchbox", { name: "Einstellungen suchen" }).fill("Audit-Protokoll behalten");
    await german.getByText("METRICS_LISTEN", { exact: true }).waitFor({ state: "detached" });
    await button("Wie man AUDIT_RETENTION_DAYS ändert", german).click();
    await see("Erlaubt: eine ganze Zahl", german);
    await german.close();
  });

  await step("the models folder is changed, and a path that is none is refused on its field", async () => {
    await open("/settings", "Settings");
    await button("Change folder").click();
    await dialog.getByText("tiny", { exact: true }).waitFor();
    await dialog.getByLabel("Folder").fill(join(gateway.dir, "nowhere"));
    page.allow(/^4\d\d PUT \/admin\/models\/base-dir$/);
    await button("Change folder", dialog).click();
    await dialog.getByRole("alert").waitFor();
    page.forbid();
    assert.equal(await dialog.getByLabel("Folder").getAttribute("aria-invalid"), "true");
    await look(page, "models-folder");
    await dialog.getByLabel("Folder").fill(elsewhere);
    await button("Change folder", dialog).click();
    await dialog.waitFor({ state: "detached" });
    await see(/an owner’s choice/);
    await button("Change folder").click();
    await button("Use MODELS_DIR again", dialog).click();
    await button("Change folder", dialog).click();
    await see("the setting MODELS_DIR");
  });

  await step("system shows the host, the checks, and probes upstreams", async () => {
    await open("/system", "System");
    await see("Keys, sessions and models");
    await see("This gateway supervises");
    await see("procfs");
    await page.getByRole("radio", { name: "15 min" }).check();
    await page.waitForURL(/minutes=15/);
    await button("Probe all").click();
    await see(/engines? w(as|ere) probed/);
    await button("Details of demo").click();
    await see("Models that it lists");
    await look(page, "system");
  });

  await step("images give one verdict", async () => {
    await open("/images", "Images");
    await see("Everything that a model starts with is on this machine.");
    await main.getByRole("link", { name: "tiny" }).first().waitFor();
    await look(page, "images");
  });

  await step("with Docker, images are loaded from a file; a file that is not there is refused on its field", async () => {
    // There is no Docker here: only the page is told that there is.
    await page.route("**/readyz", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), runtime: "docker" } });
    });
    await open("/images", "Images");
    await look(page, "images-docker");
    await button("Load images from a file").click();
    await dialog.getByLabel("File").fill("nowhere.tar");
    page.allow(/^4\d\d POST \/admin\/system\/container-images\/load$/);
    await button("Load images", dialog).click();
    await dialog.getByRole("alert").first().waitFor();
    page.forbid();
    await look(page, "images-load");
    await page.unroute("**/readyz");
  });

  await step("a package is exported, and its size is known before", async () => {
    await open("/deployment", "Export and import");
    await page.getByRole("link", { name: "Export a package" }).click();
    await page.getByLabel("Package folder").fill("first");
    await see(/^About /);
    await see("gantry package export first --models --hub-cache");
    await look(page, "export");
    await button("Export").click();
    await tab("Jobs");
    await page.getByRole("table").getByText("Completed").waitFor();
    await button("Export", page.getByRole("table")).click();
    await see("SHA-256 of the manifest");
    await look(page, "job");
  });

  await step("a job that runs tells how long it will take, and is cancelled", async () => {
    // Long enough to be looked at, and gone with the cancelled job. The file is a hole, which takes no room itself.
    writeGguf(join(gateway.models, "big.gguf"), { layers: 32, width: 2048 });
    const big = await api("POST", "/admin/models", { served_name: "big", engine_type: "llamacpp", local_path: "big.gguf" });
    await open("/deployment?tab=export&dir=second", "Export and import");
    await see(/^About /);
    await button("Export").click();
    await tab("Jobs");
    const bar = page.getByRole("progressbar");
    await until("a share", async () => Number(await bar.getAttribute("aria-valuenow")) > 0);
    const left = page.getByRole("definition").filter({ hasText: /^\d[\d.,]*\s(ms|s|min)/ });
    await left.first().waitFor();
    await button("Cancel job").click();
    await dialog.getByText("The export removes what it wrote.").waitFor();
    await button("Cancel job", dialog).click();
    await see("The job was cancelled.");
    await page.getByRole("row", { name: /Export.*second/ }).getByText("Cancelled").waitFor();
    await until("the folder is empty", () => !existsSync(join(gateway.packages, "second", "manifest.json")));
    await api("DELETE", `/admin/models/${big.id}`);
    rmSync(join(gateway.models, "big.gguf"));
  });

  await step("an import says first what it would do, and again after a change", async () => {
    await api("DELETE", `/admin/models/${await idOf("tiny")}`);
    await open("/deployment?tab=import&dir=first", "Export and import");
    await button("Check the package").click();
    const diff = page.getByRole("list", { name: "What an import would do" });
    await diff.getByText("New").first().waitFor();
    await diff.getByText("tiny", { exact: true }).waitFor();
    await page.getByLabel("Hub cache").uncheck();
    await see("You changed something since: check again.");
    assert.ok(await button("Import").isDisabled());
    await page.getByLabel("Hub cache").check();
    await look(page, "import");
    await button("Import").click();
    await see("The job has begun.");
    await tab("Jobs");
    await button("Import", page.getByRole("table")).waitFor();
    await idOf("tiny");
  });

  await step("a folder that is no package is refused on its field, with what was typed", async () => {
    page.allow(/^404 (GET|POST) \/admin\/deployment\//);
    await open("/deployment?tab=import&dir=nowhere", "Export and import");
    await button("Check the package").click();
    await page.getByRole("alert").first().waitFor();
    await until("all answers", () => page.pending() === 0);
    page.forbid();
    assert.equal(await page.getByLabel("Package folder").inputValue(), "nowhere");
    await look(page, "import-refused");
  });

  await step("one model is imported under another name", async () => {
    await open("/deployment?tab=import&dir=first", "Export and import");
    await button("Import this model", page.getByRole("row", { name: /tiny/ })).click();
    await dialog.getByLabel("Served name").fill("tiny-again");
    await button("Check", dialog).click();
    await dialog.getByText("This can be imported.").waitFor();
    await look(page, "import-model");
    await button("Import", dialog).click();
    await see("tiny-again was imported.");
  });

  await step("a restore is proven, asks for the host, and the page survives the end of the session", async () => {
    await open("/deployment?tab=restore&dir=first", "Export and import");
    await button("Check the dump").click();
    await see("The dump is complete and can be restored.");
    assert.ok(await button("Restore").isDisabled(), "this database has users");
    await look(page, "restore");
    await page.getByLabel("Replace what is in the database").check();
    await button("Restore").click();
    const confirm = button("Restore the database", dialog);
    assert.ok(await confirm.isDisabled());
    await look(page, "restore-confirm");
    await dialog.getByRole("textbox").fill(new URL(gateway.url).host);
    page.allow(/^401 /);
    await confirm.click();
    const again = page.getByRole("dialog", { name: "You are signed out" });
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await button("Sign in", again).click();
    await again.waitFor({ state: "detached" });
    page.forbid();
    assert.equal(await page.getByLabel("Package folder").inputValue(), "first");
    await tab("Jobs");
    await button("Restore of the database", page.getByRole("table")).click();
    await see("Owners who can sign in: 1");
    await look(page, "job-restore");
    api = await gateway.as();
  });

  await step("the audit log is filtered through the address, and shows what changed", async () => {
    const model = await idOf("tiny");
    await api("PATCH", `/admin/models/${model}`, { stream_idle_timeout_sec: 123 });
    await open("/audit?action=model.change", "Audit");
    await see("1 of 1 rows");
    await page.getByRole("row", { name: new RegExp(`Model\\s*tiny\\s*${model}`) }).waitFor();
    await button("ada changed a model").click();
    await dialog.getByRole("row", { name: "stream_idle_timeout_sec not set 123" }).waitFor();
    await look(page, "audit-row");
    await dialog.getByRole("link", { name: "All rows of this object" }).click();
    await page.waitForURL(new RegExp(`object_type=model&object_id=${model}`));
    await dialog.waitFor({ state: "detached" });
    await button("Clear filters").click();
    await see(/rows that are loaded follow each other/);
    await button("Show how to verify").click();
    await see("gantry audit verify");
    await look(page, "audit");
  });

  await step("new rows of the audit log are offered, and shown when they are asked for", async () => {
    await api("PATCH", `/admin/models/${await idOf("tiny")}`, { stream_idle_timeout_sec: 124 });
    await page.getByRole("button", { name: /^Show .*new rows?$/ }).click();
    await button("ada changed a model").nth(1).waitFor();
  });

  await step("the API reference finds, explains and tries an operation", async () => {
    await open("/api-reference", "API reference");
    await look(page, "api-reference");
    await page.getByRole("searchbox", { name: "Search operations" }).fill("list models");
    await page.getByRole("button", { name: /List models/ }).click();
    await see(`curl '${gateway.url}/admin/models'`);
    await page.getByLabel("limit").fill("1");
    await button("Send").click();
    await see(/^200 in/);
    await look(page, "operation");
  });

  await step("an admin sees what they may do, and a user which role a page takes", async () => {
    const grace = await gateway.page({ as: "grace" });
    await open("/deployment?tab=import&dir=first", "Export and import", grace);
    await see(/Only an owner can begin this/, grace);
    assert.equal(await button("Check the package", grace).count(), 0);
    assert.equal(await button("Import this model", grace).count(), 0);
    await open("/settings", "Settings", grace);
    await see("the setting MODELS_DIR", grace);
    assert.equal(await button("Change folder", grace).count(), 0);
    await grace.close();
    const joan = await gateway.page({ as: "joan" });
    for (const path of ["system", "images", "deployment", "audit", "settings"]) {
      await joan.goto(`${gateway.ui}/${path}`);
      await see("This page needs the role “Admin”.", joan);
    }
    await joan.goto(`${gateway.ui}/api-reference?op=listModels`);
    await see("Your role may not call this: it takes Admin.", joan);
    assert.equal(await button("Send", joan).count(), 0);
    await joan.close();
  });
}
