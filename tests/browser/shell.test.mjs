// What stands around every page: navigation, keys, theme, language, lost sessions, a lost gateway, roles, tabs.
import assert from "node:assert/strict";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { escape, focused, heading, look, openPage, PASSWORD, rail, startGateway, tabTo, test, until } from "./harness.mjs";

const PAGES = {
  Overview: "o", Models: "m", Playground: "p", Usage: "u", Keys: "k", Users: "e", Organisations: "r", Audit: "a", System: "s",
  Images: "i", "Export and import": "d", Settings: "t", "API reference": "c",
};
const ALL = Object.keys(PAGES);
const SEEN = {
  user: ["Overview", "Playground", "Usage", "Keys", "API reference"],
  org_admin: ["Overview", "Playground", "Usage", "Keys", "Users", "Organisations", "API reference"],
  admin: ALL,
  owner: ALL,
};

export default async function () {
  const gateway = await startGateway();
  const api = await gateway.as();
  const org = await api("POST", "/admin/orgs", { name: "Acme" });
  for (const role of ["user", "org_admin", "admin"])
    await api("POST", "/admin/users", { username: `the-${role}`, password: PASSWORD, role, org_id: org.id });
  const page = await gateway.page({ as: "ada" });
  const open = async (path, title, on = page) => {
    await on.goto(`${gateway.ui}${path}`);
    await heading(on, title).waitFor();
  };

  await test("the whole navigation works with the keyboard alone, and says where one is", async () => {
    await open("/", "Overview");
    await page.keyboard.press("Tab");
    assert.equal(await focused(page), "Skip to the content");
    for (const name of ALL) {
      await tabTo(page, new RegExp(`^${name}$`));
      await page.keyboard.press("Enter");
      await heading(page, name).waitFor();
      assert.equal(await rail(page).getByRole("link", { name, exact: true }).getAttribute("aria-current"), "page");
      await until("the title", async () => (await page.title()).includes(`${name} · Gantry`));
      await page.keyboard.press("Shift+Tab");
    }
    await tabTo(page, /^ada/);
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Profile" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
    assert.match(await focused(page), /^ada/, "the focus is where it was before the menu");
  });

  await test("the skip link leads to the content", async () => {
    await open("/keys", "Keys");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement?.tagName), "MAIN");
    await open("/keys", "Keys");
  });

  await test("the command menu finds pages and actions by their words", async () => {
    await open("/", "Overview");
    const search = page.getByRole("combobox", { name: "Type a page, a model or a command" });
    const menu = async () => {
      await page.keyboard.press("Control+k");
      await until("the focus", async () => (await search.count()) === 1 && search.evaluate((it) => it === document.activeElement));
    };
    await menu();
    await look(page, "command-menu");
    await page.keyboard.type("key cre");
    await page.getByRole("option", { name: "Create a key" }).waitFor();
    assert.equal(await page.getByRole("option").count(), 1);
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Create a key" }).waitFor();
    await escape(page);
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await menu();
    await page.keyboard.type("no such thing");
    await page.getByRole("dialog").getByText("Nothing matches.", { exact: true }).waitFor();
    await escape(page);
    await search.waitFor({ state: "detached" });
    await menu();
    await page.keyboard.type("sett");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await heading(page, "Settings").waitFor();
  });

  await test("the command menu starts and stops models, opens their logs, and copies the address for clients", async () => {
    writeGguf(join(gateway.models, "tiny.gguf"));
    const model = await api("POST", "/admin/models", { served_name: "by-menu", engine_type: "llamacpp", local_path: "tiny.gguf" });
    const state = async () => (await api("GET", `/admin/models/${model.id}`)).state;
    await open("/", "Overview");
    const command = async (text, name) => {
      await page.keyboard.press("Control+k");
      const search = page.getByRole("combobox", { name: "Type a page, a model or a command" });
      await search.fill(text);
      await page.getByRole("option", { name, exact: true }).waitFor();
      await page.keyboard.press("Enter");
      await search.waitFor({ state: "detached" });
    };
    await command("start by-menu", "Start by-menu");
    await page.getByText("by-menu is starting.").waitFor();
    await until("the start", async () => (await state()) === "running");
    await command("logs of by-menu", "Logs of by-menu");
    await heading(page, "by-menu").waitFor();
    await page.getByRole("log").getByText("listening on").first().waitFor();
    await command("base url", "Copy the base URL");
    await until("the address", async () => (await page.evaluate(() => navigator.clipboard.readText())) === `${gateway.url}/v1`);
    await command("stop by-menu", "Stop by-menu");
    // It asks first, and does nothing until somebody says yes.
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Stop by-menu?").waitFor();
    assert.equal(await state(), "running");
    await dialog.getByRole("button", { name: "Stop", exact: true }).click();
    await until("the stop", async () => (await state()) === "stopped");
    // Its page would ask for it once more, and be told that it is gone.
    await open("/", "Overview");
    await api("DELETE", `/admin/models/${model.id}`);
  });

  await test("letters lead to every page, but not while somebody types", async () => {
    await open("/profile", "Profile");
    for (const [name, letter] of Object.entries(PAGES)) {
      // A page may put the focus into a field; letters are text there.
      await page.evaluate(() => document.activeElement?.blur());
      await page.keyboard.press("g");
      await page.keyboard.press(letter);
      await heading(page, name).waitFor();
    }
    await open("/keys", "Keys");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("type")), "search");
    await page.keyboard.type("gm?");
    assert.equal(await page.getByRole("searchbox").first().inputValue(), "gm?");
    await heading(page, "Keys").waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
  });

  await test("? lists all shortcuts", async () => {
    await open("/", "Overview");
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    await dialog.getByText("Open the command menu").waitFor();
    for (const name of ALL) await dialog.getByText(name, { exact: true }).waitFor();
    await look(page, "shortcuts");
    await escape(page);
    await dialog.waitFor({ state: "detached" });
  });

  await test("theme and language are chosen in the menu of the account, and stay after a reload", async () => {
    await open("/", "Overview");
    const theme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
    const account = rail(page).getByRole("button", { name: /ada/ });
    const backgrounds = [];
    for (const name of ["Dark", "Light", "System"]) {
      await account.click();
      await page.getByRole("menuitemradio", { name, exact: true }).click();
      await page.keyboard.press("Escape");
      await page.getByRole("menu").waitFor({ state: "detached" });
      await page.reload();
      await heading(page, "Overview").waitFor();
      if (name !== "System") assert.match(await theme(), new RegExp(name, "i"));
      backgrounds.push(await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue("--bg")));
    }
    assert.notEqual(backgrounds[0], backgrounds[1]);
    await account.click();
    await look(page, "account-menu", { widths: [1440] });
    await page.getByRole("menuitemradio", { name: "Deutsch" }).click();
    await page.getByRole("heading", { level: 1, name: "Überblick" }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
    await page.keyboard.press("Escape");
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Überblick" }).waitFor();
    await page.getByRole("button", { name: /ada/ }).click();
    await page.getByRole("menuitemradio", { name: "English" }).click();
    await page.keyboard.press("Escape");
    await heading(page, "Overview").waitFor();
  });

  await test("a browser that speaks German gets German at once", async () => {
    const german = await gateway.page({ as: "ada", locale: "de-DE" });
    await german.goto(gateway.ui);
    await german.getByRole("heading", { level: 1, name: "Überblick" }).waitFor();
    await german.close();
  });

  await test("every page fits into 390 px, and the menu leads to each", async () => {
    const small = await gateway.page({ as: "ada", width: 390 });
    await open("/", "Overview", small);
    for (const name of ALL) {
      await small.getByRole("button", { name: "Main navigation" }).click();
      await rail(small).getByRole("link", { name, exact: true }).click();
      await heading(small, name).waitFor();
      const wide = await small.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name} is ${wide} px too wide`);
    }
    await small.getByRole("button", { name: "Main navigation" }).click();
    await rail(small).waitFor();
    await look(small, "menu-sheet", { widths: [390] });
    await small.close();
  });

  await test("a session that ends while a form is filled in: signing in again keeps what was typed, and the action works", async () => {
    await page.goto(`${gateway.ui}/keys?dialog=create`);
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    const name = dialog.getByRole("textbox", { name: "Name", exact: true });
    await name.fill("typed before the end");
    // A request of the page may find the end out first. Then the dialog about it hides the button, also by its role.
    const create = await dialog.getByRole("button", { name: "Create key" }).elementHandle();
    await page.context().clearCookies();
    page.allow(/^401 /);
    await create.dispatchEvent("click");
    const again = page.getByRole("dialog", { name: "You are signed out" });
    await again.waitFor();
    await look(page, "signed-out");
    await again.getByLabel("Password", { exact: true }).fill("wrong");
    await again.getByRole("button", { name: "Sign in", exact: true }).click();
    await again.getByRole("alert").waitFor();
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await again.getByRole("button", { name: "Sign in", exact: true }).click();
    await again.waitFor({ state: "detached" });
    page.forbid();
    assert.equal(await name.inputValue(), "typed before the end");
    await dialog.getByRole("button", { name: "Create key" }).click();
    const made = page.getByRole("dialog", { name: "The key is created" });
    await made.waitFor();
    await look(page, "key-created");
    await made.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("link", { name: /typed before the end/ }).or(page.getByRole("button", { name: /typed before the end/ })).first().waitFor();
  });

  await test("a lost gateway: the bar says so, nothing typed is lost, and the page recovers by itself", async () => {
    await page.goto(`${gateway.ui}/keys?dialog=create`);
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    const name = dialog.getByRole("textbox", { name: "Name", exact: true });
    await name.fill("typed while it was gone");
    const lost = page.getByRole("status").getByText(/^The gateway has not answered since/);
    page.allow(/^lost /, /ERR_|network|fetch/i, /^5\d\d /);
    await gateway.kill();
    // Nobody has to press anything for this.
    await lost.or(page.getByText(/^The gateway has not answered since/)).first().waitFor();
    await dialog.getByRole("button", { name: "Create key" }).click();
    await dialog.getByRole("alert").getByText("The gateway does not answer.").waitFor();
    await look(page, "gateway-lost");
    await gateway.start();
    await page.getByText(/^The gateway has not answered since/).waitFor({ state: "detached" });
    page.forbid();
    assert.equal(await name.inputValue(), "typed while it was gone");
    await dialog.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog", { name: "The key is created" }).getByRole("button", { name: "I have saved it" }).click();
    // Live again: what somebody else does appears.
    await open("/", "Overview");
    await api("POST", "/admin/models", { served_name: "after-the-loss", engine_type: "llamacpp", local_path: "none.gguf", force: true });
    await page.getByText("after-the-loss").first().waitFor();
  });

  await test("below the bar of a lost gateway the playground still ends where the window does", async () => {
    await open("/playground", "Playground");
    const lost = page.getByText(/^The gateway has not answered since/);
    page.allow(/^lost /, /ERR_|network|fetch/i, /^5\d\d /);
    await gateway.kill();
    await lost.waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollHeight - innerHeight), 0);
    await gateway.start();
    await lost.waitFor({ state: "detached" });
    page.forbid();
  });

  for (const [role, username] of [["owner", "ada"], ["admin", "the-admin"], ["org_admin", "the-org_admin"], ["user", "the-user"]]) {
    await test(`as ${role}: the rail shows what the role may see, and no page asks for what is refused`, async () => {
      const theirs = await gateway.page({ as: username });
      await open("/", "Overview", theirs);
      const names = await rail(theirs).getByRole("link").allTextContents();
      assert.deepEqual(names.toSorted(), SEEN[role].toSorted());
      for (const name of [...SEEN[role], "Overview"]) {
        await rail(theirs).getByRole("link", { name, exact: true }).click();
        await heading(theirs, name).waitFor();
        await theirs.waitForLoadState("load");
      }
      await open("/profile", "Profile", theirs);
      assert.deepEqual(theirs.answers.filter((it) => it.startsWith("403")), []);
      await theirs.close();
    });
  }

  await test("a page that the role may not see says which role it takes, without asking the gateway", async () => {
    const theirs = await gateway.page({ as: "the-user" });
    for (const path of ["/models", "/system", "/audit", "/users"]) {
      await theirs.goto(`${gateway.ui}${path}`);
      await theirs.getByText(/This page needs the role “(Admin|Org admin)”/).waitFor();
    }
    await look(theirs, "not-allowed");
    await theirs.close();
  });

  await test("an unknown address says so, and leads back", async () => {
    await open("/no/such/page", "Page not found");
    await page.getByText("There is nothing at this address.").waitFor();
    await look(page, "not-found");
    await page.getByRole("main").getByRole("link", { name: "Overview" }).click();
    await heading(page, "Overview").waitFor();
  });

  await test("two tabs: what one does, the other shows; signing out in one is told in the other", async () => {
    await open("/keys", "Keys");
    const other = await openPage(page.context());
    await open("/models", "Models", other);
    const model = await api("POST", "/admin/models", { served_name: "two-tabs", engine_type: "llamacpp", local_path: "none.gguf", force: true });
    await other.getByRole("link", { name: "two-tabs" }).waitFor();
    await api("DELETE", `/admin/models/${model.id}`);
    await other.getByRole("link", { name: "two-tabs" }).waitFor({ state: "detached" });
    other.allow(/^401 /);
    await rail(page).getByRole("button", { name: /ada/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await heading(page, "Sign in").waitFor();
    await heading(other, "Sign in").waitFor();
  });

  await test("a user who signs out has signed out in every tab, and nothing that they wrote stays in the browser", async () => {
    const theirs = await gateway.page({ as: "the-user" });
    await open("/playground", "Playground", theirs);
    await theirs.evaluate(() => localStorage.setItem("gantry.playground.999.draft.new", '"of somebody else"'));
    const { id } = await theirs.evaluate(() => fetch("/auth/me").then((it) => it.json())).then((it) => it.user);
    await theirs.evaluate((of) => localStorage.setItem(`gantry.playground.${of}.draft.new`, '"a secret question"'), id);
    const other = await openPage(theirs.context());
    await open("/usage", "Usage", other);
    for (const tab of [theirs, other]) tab.allow(/^401 /);
    await rail(theirs).getByRole("button", { name: /the-user/ }).click();
    await theirs.getByRole("menuitem", { name: "Sign out" }).click();
    await heading(theirs, "Sign in").waitFor();
    await heading(other, "Sign in").waitFor();
    const kept = await other.evaluate(() => JSON.stringify({ ...localStorage }));
    assert.ok(!kept.includes("a secret question"), "a draft goes with its account");
    assert.ok(kept.includes("of somebody else"));
    await other.close();
    await theirs.close();
  });

  await test("a session that ended is there again in all tabs when somebody signs in again in one", async () => {
    const theirs = await gateway.page({ as: "the-user" });
    await open("/usage", "Usage", theirs);
    const other = await openPage(theirs.context());
    await open("/usage", "Usage", other);
    for (const tab of [theirs, other]) tab.allow(/^401 /);
    await theirs.context().clearCookies();
    const again = (tab) => tab.getByRole("dialog", { name: "You are signed out" });
    for (const tab of [theirs, other]) {
      // A request of the page may have found it out before: then the page is hidden behind the dialog about it.
      await tab.getByRole("link", { name: "Keys", exact: true, includeHidden: true }).first().dispatchEvent("click");
      await again(tab).waitFor();
    }
    await again(theirs).getByLabel("Password", { exact: true }).fill(PASSWORD);
    await again(theirs).getByRole("button", { name: "Sign in", exact: true }).click();
    for (const tab of [theirs, other]) await again(tab).waitFor({ state: "detached" });
    await other.close();
    await theirs.close();
  });
}
