// What was typed and is not saved: it stays while one looks elsewhere, it is checked before it is saved, and what others do
// meanwhile is told before anything of it is lost.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, look, PASSWORD, rail, startGateway, test, until } from "./harness.mjs";

export default async function () {
  const gateway = await startGateway();
  writeGguf(join(gateway.models, "tiny.gguf"), { name: "tiny", context: 8192 });
  const api = await gateway.as();
  const record = { engine_type: "llamacpp", local_path: "tiny.gguf", context_size: 4096 };
  const { id } = await api("POST", "/admin/models", { ...record, served_name: "tiny" });
  const page = await gateway.page({ as: "ada" });
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const context = (on = page) => on.getByRole("textbox", { name: /context_size/ });
  const hubToken = page.getByLabel("Access token of the hub");
  const openTab = (name) => page.getByRole("tab", { name }).click();
  const configuration = async (on = page, of = id) => {
    await on.goto(`${gateway.ui}/models/${of}?tab=configuration`);
    await context(on).waitFor();
  };
  const keptText = (on = page) => on.evaluate(() => JSON.stringify({ ...sessionStorage }));

  await test("what is typed for a model stays during a look at its log, a link and a reload, but no secret is written", async () => {
    await configuration();
    await context().fill("2048");
    await hubToken.fill("hf_secret");
    await openTab("Logs");
    const marked = page.getByRole("tab", { name: "Configuration (not saved)" });
    await marked.waitFor();
    await look(page, "model-not-saved");
    await marked.click();
    assert.equal(await context().inputValue(), "2048");
    assert.equal(await hubToken.inputValue(), "hf_secret");
    await rail(page).getByRole("link", { name: "Keys", exact: true }).click();
    await heading(page, "Keys").waitFor();
    await page.goBack();
    await until("what was typed", async () => (await context().inputValue()) === "2048");
    await hubToken.fill("hf_secret");
    await page.reload();
    await context().waitFor();
    assert.equal(await context().inputValue(), "2048");
    assert.equal(await hubToken.inputValue(), "");
    assert.ok(!(await keptText()).includes("hf_secret"));
    await page.getByRole("row", { name: "context_size 4096 2048" }).waitFor();
    await button("Save").click();
    await page.getByRole("tab", { name: "Configuration", exact: true }).waitFor();
    assert.equal((await api("GET", `/admin/models/${id}`)).context_size, 2048);
    await context().fill("1024");
    await button("Discard").click();
    assert.equal(await context().inputValue(), "2048");
    assert.ok(!(await keptText()).includes("context_size"), "nothing is kept of what is saved or discarded");
    await api("PATCH", `/admin/models/${id}`, { context_size: 4096 });
  });

  await test("options of an export, an import and a restore stay while one looks at another tab and loads the page again", async () => {
    const box = (name) => page.getByRole("checkbox", { name });
    await page.goto(`${gateway.ui}/deployment?tab=export`);
    await box("Database").uncheck();
    await page.getByLabel("Only what an earlier package lacks").fill("monday");
    await openTab("Import");
    await box("Weights").uncheck();
    await openTab("Restore");
    await page.getByLabel("Dump").fill("other.sql");
    await page.reload();
    await until("the dump", async () => (await page.getByLabel("Dump").inputValue()) === "other.sql");
    await openTab("Import");
    assert.equal(await box("Weights").isChecked(), false);
    await openTab("Export");
    assert.equal(await box("Database").isChecked(), false);
    assert.equal(await page.getByLabel("Only what an earlier package lacks").inputValue(), "monday");
  });

  await test("changes are checked before they are saved: the command, what differs in it, and warnings with their fix", async () => {
    await configuration();
    const command = page.getByRole("region", { name: "Command" });
    await command.getByText("--ctx-size 4096").waitFor();
    await context().fill("2048");
    await command.getByRole("mark").getByText("--ctx-size 2048").waitFor();
    await page.getByRole("searchbox", { name: "Find a setting" }).fill("batch_size");
    const batch = page.getByRole("textbox", { name: /^batch_size/ });
    await batch.fill("8");
    await page.getByRole("list", { name: "Checks" }).getByText("An unusual").waitFor();
    await look(page, "model-checked");
    await button("Set batch_size = 128").click();
    await until("the value of the fix", async () => (await batch.inputValue()) === "128");
    await page.getByText("An unusual").waitFor({ state: "detached" });
    page.allow(/^422 POST \/admin\/models\/\d+\/dry-run$/);
    const served = page.getByRole("textbox", { name: "Served name" });
    await served.fill("running");
    await until("the mark on the field", async () => (await served.getAttribute("aria-invalid")) === "true");
    page.forbid();
    const saved = await api("GET", `/admin/models/${id}`);
    assert.deepEqual([saved.context_size, saved.needs_apply], [4096, false], "nothing was stored");
    await button("Discard").click();
  });

  await test("two tabs change one model: the later one is told what the other changed, and loses nothing that it typed", async () => {
    await configuration();
    await context().fill("2048");
    // The model does not run, so no event tells of this.
    await api("PATCH", `/admin/models/${id}`, { context_size: 1024, seed: 7 });
    page.allow(/^412 PATCH /);
    await button("Save").click();
    const theirs = page.getByRole("alert").filter({ hasText: "Somebody changed this model meanwhile" });
    await theirs.getByRole("row", { name: "context_size 2048 1024" }).waitFor();
    await theirs.getByRole("row", { name: /^seed/ }).waitFor();
    await look(page, "model-changed-meanwhile");
    page.forbid();
    assert.equal(await context().inputValue(), "2048");
    assert.equal((await api("GET", `/admin/models/${id}`)).context_size, 1024, "nothing was overwritten unseen");
    await button("Save").click();
    await theirs.waitFor({ state: "detached" });
    const { context_size, seed } = await api("GET", `/admin/models/${id}`);
    assert.deepEqual([context_size, seed], [2048, 7]);
    await api("PATCH", `/admin/models/${id}`, { context_size: 4096, seed: null });
  });

  for (const [what, path, make, open] of [
    ["user", "/users", { username: "uma", password: PASSWORD }, "Edit uma"],
    ["organisation", "/orgs", { name: "Acme" }, "Edit Acme"],
  ])
    await test(`two people change one ${what}: the later one is told what the other changed, and loses nothing`, async () => {
      const made = await api("POST", `/admin${path}`, make);
      const name = make.username ?? make.name;
      await page.goto(`${gateway.ui}${what === "user" ? "/users" : "/organisations"}?name=${name}&dialog=edit`);
      const form = page.getByRole("dialog", { name: open });
      await form.getByLabel("Tokens a minute").fill("5000");
      await api("PATCH", `/admin${path}/${made.id}`, { rpm_limit: 600 });
      page.allow(/^412 PATCH /);
      await button("Save", form).click();
      await form.getByText("Somebody changed this meanwhile.").first().waitFor();
      await form.getByText("600", { exact: true }).waitFor();
      await look(page, `${what}-changed-meanwhile`);
      page.forbid();
      assert.equal(await form.getByLabel("Tokens a minute").inputValue(), "5000");
      await button("Save", form).click();
      await form.waitFor({ state: "detached" });
      const after = (await api("GET", `/admin${path}`)).find((it) => it.id === made.id);
      assert.deepEqual([after.tpm_limit, after.rpm_limit], [5000, 600]);
    });

  await test("somebody lowers the role while a form is open: the page says so, and what was typed is there when the role is back", async () => {
    const { id: user } = await api("POST", "/admin/users", { username: "abe", password: PASSWORD, role: "admin" });
    const theirs = await gateway.page({ as: "abe" });
    // Their sessions end with each change of the role.
    theirs.allow(/^40[13] /);
    const again = theirs.getByRole("dialog", { name: "You are signed out" });
    const signIn = async () => {
      await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
      await button("Sign in", again).click();
      await again.waitFor({ state: "detached" });
    };
    await theirs.goto(`${gateway.ui}/organisations?dialog=create`);
    const form = theirs.getByRole("dialog", { name: "Create an organisation" });
    await form.getByLabel("Name", { exact: true }).fill("Typed before");
    await api("PATCH", `/admin/users/${user}`, { role: "org_admin" });
    await button("Create organisation", form).click();
    await again.waitFor();
    await signIn();
    await theirs.getByRole("status").getByText("You are signed in as abe with the role “Org admin” now.").waitFor();
    await form.waitFor({ state: "hidden" });
    assert.equal(await button("Create organisation", theirs).count(), 0, "what would be refused is not shown");
    await look(theirs, "role-lowered");
    await api("PATCH", `/admin/users/${user}`, { role: "admin" });
    // The page asks for the list by itself.
    await again.waitFor();
    await signIn();
    await form.waitFor();
    assert.equal(await form.getByLabel("Name", { exact: true }).inputValue(), "Typed before");
    await button("Create organisation", form).click();
    await theirs.getByRole("row", { name: /Typed before/ }).waitFor();
    await theirs.close();
  });

  await test("a page that is refused looks who is signed in now, and shows what they may see", async () => {
    await api("POST", "/admin/users", { username: "eve", password: PASSWORD });
    const tab = await gateway.page({ as: "ada" });
    await configuration(tab);
    // The check of what was typed must not be the request that is refused.
    const checked = tab.waitForResponse((it) => it.url().endsWith("/dry-run") && it.request().postData()?.includes("2048"));
    await context(tab).fill("2048");
    await checked;
    const become = async (who) => {
      // As when another tab signs in: tabs share their cookies.
      const [name, value] = (await gateway.as(who)).cookie.split("=");
      await tab.context().addCookies([{ name, value, url: gateway.url }]);
    };
    await become("eve");
    tab.allow(/^403 /);
    await button("Save", tab).click();
    await tab.getByRole("status").getByText("You are signed in as eve with the role “User” now.").waitFor();
    await tab.getByText("This page needs the role “Admin”.").waitFor();
    await look(tab, "signed-in-elsewhere");
    await become("ada");
    await tab.reload();
    await context(tab).waitFor();
    assert.equal(await context(tab).inputValue(), "2048");
    await tab.close();
  });

  await test("where the stream of events can't be opened, pages ask by themselves, and don't say that the gateway is lost", async () => {
    const deaf = await gateway.page({ as: "ada" });
    deaf.allow(/GET \/admin\/events/);
    let refused = 0;
    await deaf.route(/\/admin\/events/, (route) => {
      refused += 1;
      return route.abort("failed");
    });
    await deaf.goto(`${gateway.ui}/models`);
    await heading(deaf, "Models").waitFor();
    const seen = deaf.evaluate(() => new Promise((done) => {
      const watch = new MutationObserver(() => /has not answered since/.test(document.body.textContent) && done(true));
      watch.observe(document.body, { childList: true, subtree: true });
      window.addEventListener("test-ends", () => done(false), { once: true });
    }));
    const made = await api("POST", "/admin/models", { ...record, served_name: "unannounced" });
    await deaf.getByRole("link", { name: "unannounced" }).waitFor();
    await api("DELETE", `/admin/models/${made.id}`);
    await deaf.getByRole("link", { name: "unannounced" }).waitFor({ state: "detached" });
    await until("another try", () => refused > 1);
    await deaf.evaluate(() => window.dispatchEvent(new Event("test-ends")));
    assert.equal(await seen, false, "no bar said that the gateway is lost");
    await deaf.close();
  });

  await test("an engine that is killed while its page is watched: the page says so and why, and keeps what is typed", async () => {
    await api("POST", `/admin/models/${id}/start`);
    await configuration();
    const state = page.getByRole("main").getByText("Running", { exact: true }).first();
    await state.waitFor();
    await context().fill("2048");
    const run = join(gateway.dir, "data/run");
    const engine = readdirSync(run).find((it) => it.endsWith(`-${id}`));
    process.kill(JSON.parse(readFileSync(join(run, engine, "state.json"), "utf8")).engine_pid, "SIGKILL");
    await page.getByRole("main").getByText("Failed", { exact: true }).first().waitFor();
    assert.equal(await context().inputValue(), "2048");
    await openTab("Overview");
    await page.getByRole("main").getByText(/kill|signal|SIGKILL/i).first().waitFor();
    await look(page, "model-killed");
    await button("Start").click();
    await state.waitFor();
  });
}
