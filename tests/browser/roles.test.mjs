// A day of those who do not own the gateway: an admin who deploys a model, an org admin who takes in a user, and that user. Each
// sees what they may do, is told whose matter the rest is, and no page asks for what the gateway would refuse.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { writeGguf } from "./gguf.mjs";
import { escape, heading, look, PASSWORD, rail, signIn, startGateway, step, until } from "./harness.mjs";
import { killEngine } from "./life.mjs";

const NAME = "tiny-llama";

/** One person with a page of their own. */
async function person(gateway, username, password = PASSWORD) {
  const page = await gateway.page();
  await page.goto(`${gateway.ui}/`);
  await signIn(page, username, password);
  await heading(page, "Overview").waitFor();
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  return {
    page,
    button,
    main: page.getByRole("main"),
    row: (text) => page.getByRole("row").filter({ hasText: text }),
    tab: (name) => page.getByRole("tab", { name, exact: true }).click(),
    go: async (name) => {
      await rail(page).getByRole("link", { name, exact: true }).click();
      await heading(page, name).waitFor();
    },
    leave: async () => {
      await rail(page).getByRole("button", { name: new RegExp(username) }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).click();
      await heading(page, "Sign in").waitFor();
      assert.equal(await page.evaluate(() => fetch("/auth/me").then((it) => it.status)), 401);
      assert.deepEqual(page.answers.filter((it) => it.startsWith("403")), [], "nothing was asked for that is refused");
      await page.close();
    },
  };
}

/** What an organisation looks like before anybody of this story comes: two organisations, with an admin and an org admin. */
async function staff(api) {
  const acme = await api("POST", "/admin/orgs", { name: "Acme" });
  const other = await api("POST", "/admin/orgs", { name: "Other house" });
  for (const [username, role, org_id] of [["adam", "admin", acme.id], ["olga", "org_admin", acme.id], ["nobody-of-ours", "user", other.id]])
    await api("POST", "/admin/users", { username, password: PASSWORD, role, org_id });
}

export default async function () {
  const gateway = await startGateway({ engine: "--sim-load-seconds 1 --sim-tokens-per-sec 40" });
  writeGguf(join(gateway.models, `${NAME}.gguf`), { name: NAME });
  const owner = await gateway.as();
  await staff(owner);
  const broken = await owner("POST", "/admin/models", {
    served_name: "broken", engine_type: "llamacpp", local_path: `${NAME}.gguf`, extra_args: ["--no-such-argument"], force: true,
  });

  const adam = await person(gateway, "adam");

  await step("an admin deploys a model; what only an owner may set is shown, locked, and says so", async () => {
    const { page, main, button } = adam;
    await main.getByRole("link", { name: "Add a model" }).first().click();
    await page.getByRole("list", { name: "In the models folder" }).getByRole("button").first().click();
    await page.getByText("Nothing speaks against a start.").waitFor();
    await page.getByRole("searchbox", { name: "Find a setting" }).fill("extra_args");
    const locked = page.getByRole("textbox", { name: /extra_args/ });
    await locked.waitFor();
    assert.ok(await locked.isDisabled());
    await page.getByText("owners only").first().waitFor();
    await look(page, "admin-deploy");
    await page.getByRole("searchbox", { name: "Find a setting" }).fill("");
    await button("Save and start").click();
    await heading(page, NAME).waitFor();
    await main.getByText("Running", { exact: true }).first().waitFor();
  });

  await step("an admin is told that the remedy of a failure is an owner's", async () => {
    const { page, main, button, go } = adam;
    await go("Models");
    await button("Start: broken").click();
    await page.getByText("Argument unknown to this version").first().waitFor();
    await page.getByText("Only an owner may change extra_args.").first().waitFor();
    assert.equal(await page.getByRole("link", { name: "Change extra_args" }).count(), 0);
    await look(page, "admin-failure");
    await main.getByRole("link", { name: "broken", exact: true }).first().click();
    await heading(page, "broken").waitFor();
    await adam.tab("Configuration");
    await page.getByRole("searchbox", { name: "Find a setting" }).fill("extra_args");
    const locked = page.getByRole("textbox", { name: /extra_args/ });
    await locked.waitFor();
    assert.ok(await locked.isDisabled(), "nor on the page of the model");
    // A copy can be made of all that an admin may set.
    await button("More").click();
    await page.getByRole("menuitem", { name: "Duplicate" }).click();
    await page.getByLabel("Served name").fill("mended");
    await button("Save").click();
    await heading(page, "mended").waitFor();
    await owner("DELETE", `/admin/models/${broken.id}`);
  });

  await step("an admin looks at packages and sizes, and can neither export, import nor restore", async () => {
    const { page, main, tab, go } = adam;
    await go("Export and import");
    for (const name of ["Export", "Import", "Restore"]) {
      await tab(name);
      await main.getByText("Only an owner can begin this").first().waitFor();
      assert.deepEqual(
        (await main.getByRole("button").allTextContents()).filter((it) => /^(Export|Import|Restore)$/.test(it)), [],
        `${name} has no button that begins it`,
      );
    }
    await look(page, "admin-export");
    await go("Images");
    assert.equal(await page.getByRole("button", { name: /^Load/ }).count(), 0);
    await go("Settings");
    for (const name of ["System", "Audit", "Usage", "Users", "Organisations"]) await go(name);
    await adam.leave();
  });

  const olga = await person(gateway, "olga");

  await step("an org admin takes in a user with a budget, and sees nobody of another organisation", async () => {
    const { page, button, go, row } = olga;
    await go("Users");
    await row("olga").waitFor();
    await button("Create user").click();
    const form = page.getByRole("dialog", { name: "Create a user" });
    await form.getByLabel("User name").fill("uma");
    await form.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await form.getByLabel("Tokens a month").fill("50000");
    assert.equal(await form.getByRole("combobox", { name: "Organisation" }).count(), 0, "it is their own");
    await look(page, "org-admin-user");
    await button("Create user", form).click();
    await form.waitFor({ state: "detached" });
    await row("uma").waitFor();
    await go("Organisations");
    await row("Acme").waitFor();
    assert.equal(await row("Other house").count(), 0);
    await go("Users");
    assert.equal(await row("nobody-of-ours").count(), 0);
    assert.equal(await row("ada").filter({ hasText: "Owner" }).count(), 0);
    await button("Open the user uma").click();
    await page.getByRole("dialog").getByText(/at most 50/).first().waitFor();
    await escape(page);
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  const uma = await person(gateway, "uma");

  await step("a user makes a key and asks the model with it", async () => {
    const { page, go, button } = uma;
    await page.getByRole("table", { name: "Models that you may call" }).getByRole("row").filter({ hasText: NAME }).getByText("Callable").waitFor();
    await look(page, "user-overview");
    await go("Keys");
    await button("Create key").first().click();
    const form = page.getByRole("dialog", { name: "Create a key" });
    await form.getByLabel("Name", { exact: true }).fill("laptop of uma");
    await button("Create key", form).click();
    const made = page.getByRole("dialog", { name: "The key is created" });
    const command = await until("the command", async () => {
      await made.getByRole("button", { name: "Copy" }).nth(1).click();
      const text = await page.evaluate(() => navigator.clipboard.readText());
      return text.startsWith("curl") && text;
    });
    const { stdout } = await promisify(execFile)("bash", ["-c", command]);
    assert.ok(JSON.parse(stdout).choices[0].message.content.length > 0, stdout);
    await button("I have saved it", made).click();
    await made.waitFor({ state: "detached" });
  });

  await step("a user has an answer streamed, and stops it", async () => {
    const { page, go, button } = uma;
    await go("Playground");
    const question = page.getByRole("textbox", { name: "Question", exact: true });
    const answers = page.getByRole("log", { name: "Conversation" });
    await question.fill("Write a long story");
    await question.press("Enter");
    await button("Stop").waitFor();
    const grown = await until("words", async () => (await answers.innerText()).length);
    await until("more words", async () => (await answers.innerText()).length > grown + 20);
    await button("Stop").click();
    await answers.getByText("stopped by you").waitFor();
    assert.equal(await page.getByRole("link", { name: "Models", exact: true }).count(), 0);
  });

  await step("a user finds both requests in their own usage, and the budget in their profile", async () => {
    const { page, go } = uma;
    await go("Usage");
    const rows = page.getByRole("button", { name: /^Open the request/ });
    await until("two requests", async () => {
      const newer = page.getByRole("button", { name: /^Show .*newer/ });
      if (await newer.isVisible()) await newer.click();
      return (await rows.count()) === 2;
    });
    const drawer = page.getByRole("dialog");
    for (const [row, how] of [[rows.last(), "laptop of uma"], [rows.first(), "a session in the browser"]]) {
      await row.click();
      await drawer.getByText(how).first().waitFor();
      await escape(page);
      await drawer.waitFor({ state: "detached" });
    }
    await look(page, "user-usage");
    await rail(page).getByRole("button", { name: /uma/ }).click();
    await page.getByRole("menuitem", { name: "Profile" }).click();
    await heading(page, "Profile").waitFor();
    await page.getByRole("meter", { name: "Tokens a month" }).first().waitFor();
  });

  await step("the org admin sees who asked; neither sees who is elsewhere", async () => {
    const { page, go } = olga;
    await go("Usage");
    await page.getByRole("group", { name: "Breakdown by" }).getByRole("radio", { name: "User", exact: true }).click();
    await page.getByRole("button", { name: "Show only uma" }).first().waitFor();
    await olga.leave();
  });

  await step("when an engine dies, a user's pages say so by what they are told, not when they ask next", async () => {
    const { page, go } = uma;
    await go("Playground");
    await page.getByText("Ask something.").waitFor();
    const other = await gateway.page({ as: "uma" });
    await other.goto(`${gateway.ui}/`);
    const model = other.getByRole("table", { name: "Models that you may call" }).getByRole("row").filter({ hasText: NAME });
    await model.getByText("Callable").waitFor();
    // Whoever asks is told what was true before: only the event knows better.
    const before = await other.evaluate(() => fetch("/auth/models?limit=1000").then((it) => it.text()));
    await other.route("**/auth/models*", (route) => route.fulfill({ contentType: "application/json", body: before }));
    const { id } = (await owner("GET", "/admin/models")).find((it) => it.served_name === NAME);
    const at = killEngine(gateway, id);
    await model.getByText("Not running").waitFor();
    const overview = Date.now() - at;
    await page.getByText("No model that generates text runs now.").waitFor();
    console.log(`    overview after ${overview} ms, playground after ${Date.now() - at} ms`);
    await other.close();
    await uma.leave();
  });
}
