// Who may call models, how much, and what they used: keys, organisations, users, limits, tokens and usage.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { escape, heading, look, PASSWORD, rail, startGateway, step, until } from "./harness.mjs";

export default async function () {
  const gateway = await startGateway({ demo: true });
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada" });
  const go = async (name, on = page) => {
    await rail(on).getByRole("link", { name, exact: true }).click();
    await heading(on, name).waitFor();
  };
  const dialog = (on = page) => on.getByRole("dialog").last();
  const row = (text, on = page) => on.getByRole("row").filter({ hasText: text });
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const closed = async (it) => {
    await escape(page);
    await it.waitFor({ state: "detached" });
  };
  let token;

  await step("a key is made: bad input is said on its field, Escape loses nothing, the token is shown once and works", async () => {
    await page.goto(`${gateway.ui}/keys`);
    await button("Create key").click();
    const form = page.getByRole("dialog", { name: "Create a key" });
    await form.getByLabel("Name", { exact: true }).fill("laptop");
    await form.getByLabel("IP addresses").fill("10.0.0.300");
    await form.getByText("“10.0.0.300” is not an IP address or a CIDR range.").waitFor();
    await button("Create key", form).click();
    await until("the mark on the field", async () => (await form.getByLabel("IP addresses").getAttribute("aria-invalid")) === "true");
    await look(page, "key-form");
    await button("Remove 10.0.0.300", form).click();
    await form.getByLabel("IP addresses").fill("127.0.0.1, ::1");
    await form.getByLabel("Tokens a day").fill("100000");
    await escape(page);
    const discard = page.getByRole("dialog").filter({ has: button("Discard") }).last();
    await look(page, "discard");
    await button("Cancel", discard).click();
    assert.equal(await form.getByLabel("Name", { exact: true }).inputValue(), "laptop", "Escape loses nothing");
    await button("Create key", form).click();
    const made = page.getByRole("dialog", { name: "The key is created" });
    await made.getByRole("button", { name: "Copy" }).first().click();
    token = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(token, /^gty_/);
    await escape(page);
    await button("Test this key", made).click();
    await made.getByText("The key works.").waitFor();
    await made.getByLabel("Claude Code").check();
    await made.getByText(`ANTHROPIC_AUTH_TOKEN=${token}`).waitFor();
    await look(page, "key-made");
    await button("I have saved it", made).click();
    await made.waitFor({ state: "detached" });
    assert.ok(!(await page.content()).includes(token), "the token is gone from the page");
    await row("laptop").waitFor();
    await look(page, "keys");
  });

  await step("what somebody else changed while a key is edited is shown, and stays when it is not touched here", async () => {
    await button("Open the key laptop").click();
    await dialog().getByRole("meter").first().waitFor();
    await look(page, "key");
    await button("Edit", dialog()).click();
    const form = page.getByRole("dialog", { name: "Edit laptop" });
    await form.getByLabel("Name", { exact: true }).fill("desk");
    const [key] = await api("GET", "/auth/keys?q=laptop");
    await api("PATCH", `/admin/keys/${key.id}`, { rpm_limit: 600 });
    await form.getByText("Somebody changed this meanwhile.").waitFor();
    await look(page, "key-changed");
    await button("Save", form).click();
    await form.waitFor({ state: "detached" });
    const [after] = await api("GET", "/auth/keys?q=desk");
    assert.equal(after.rpm_limit, 600);
    await closed(page.getByRole("dialog"));
  });

  await step("an organisation is made with a budget, and its page shows what is used of it", async () => {
    await go("Organisations");
    await look(page, "organisations");
    await button("Create organisation").click();
    const form = page.getByRole("dialog", { name: "Create an organisation" });
    await button("Create organisation", form).click();
    await form.getByText("Write a name.").waitFor();
    await look(page, "organisation-form");
    await form.getByLabel("Name", { exact: true }).fill("Acme");
    // What is no number must not be sent as "no limit".
    await form.getByLabel("Tokens a month").fill("one million");
    await button("Create organisation", form).click();
    await form.getByText("Write a whole number.").waitFor();
    assert.ok(await form.getByLabel("Tokens a month").evaluate((it) => it === document.activeElement), "the field has the focus");
    await form.getByLabel("Tokens a month").fill("1000000");
    await button("Create organisation", form).click();
    await row("Acme").waitFor();
    await button("Open the organisation Acme").click();
    await dialog().getByText("0 of 1 M").waitFor();
    await look(page, "organisation");
    await button("Disable", dialog()).click();
    const asks = page.getByRole("dialog", { name: "Disable Acme?" });
    await look(page, "organisation-disable");
    await button("Cancel", asks).click();
    await button("Delete", dialog()).click();
    const typed = page.getByRole("dialog", { name: "Delete Acme?" });
    assert.ok(await button("Delete", typed).isDisabled(), "the name is typed first");
    await button("Cancel", typed).click();
    await typed.waitFor({ state: "detached" });
    await closed(page.getByRole("dialog"));
  });

  await step("users are made; what the gateway refuses lands on its field", async () => {
    await go("Users");
    const filled = async (name, role) => {
      await button("Create user").click();
      const form = page.getByRole("dialog", { name: "Create a user" });
      await form.getByLabel("User name").fill(name);
      await form.getByLabel("Password", { exact: true }).fill("short");
      await button("Create user", form).click();
      await form.getByText("Write 8 characters or more.").waitFor();
      await form.getByLabel("Password", { exact: true }).fill(PASSWORD);
      await form.getByLabel(role).check();
      await form.getByRole("combobox", { name: "Organisation" }).fill("Acm");
      await page.getByRole("option", { name: "Acme" }).click();
      return form;
    };
    let form = await filled("olga", "Org admin");
    await look(page, "user-form");
    await button("Create user", form).click();
    await row("olga").waitFor();
    form = await filled("olga", "Calls models and makes keys.");
    page.allow(/^409 POST \/admin\/users$/);
    await button("Create user", form).click();
    await form.getByRole("alert").first().waitFor();
    page.forbid();
    await look(page, "user-refused");
    await form.getByLabel("User name").fill("uma");
    await form.getByLabel("Requests a minute").fill("60");
    await button("Create user", form).click();
    await row("uma").waitFor();
    await look(page, "users");
  });

  await step("a user is invited by a link, which sets a password once, and another link is for who forgot it", async () => {
    const copied = async (made) => {
      await button("Copy the link", made).click();
      const link = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(link, new RegExp(`^${gateway.ui}/welcome#gtl_[0-9A-Za-z]{46}$`));
      await button("I have copied it", made).click();
      await made.waitFor({ state: "detached" });
      assert.ok(!(await page.content()).includes(link.split("#")[1]), "the link is gone from the page");
      return link;
    };
    const opened = async (link) => {
      const other = await gateway.page();
      await other.goto(link);
      await other.getByLabel("Password", { exact: true }).fill(PASSWORD);
      return other;
    };
    await button("Create user").click();
    const form = page.getByRole("dialog", { name: "Create a user" });
    await form.getByLabel("User name").fill("nora");
    await form.getByLabel("Invite by link instead of a password").check();
    assert.equal(await form.getByLabel("Password", { exact: true }).count(), 0);
    await look(page, "user-invite");
    await button("Create, with a link", form).click();
    const invitation = page.getByRole("dialog", { name: "Hand this link to nora" });
    await invitation.waitFor();
    await look(page, "user-invited");
    const link = await copied(invitation);
    await row("nora").waitFor();
    const nora = await opened(link);
    await look(nora, "welcome");
    await button("Set the password", nora).click();
    await rail(nora).waitFor();
    assert.ok(!nora.url().includes("#"), nora.url());
    await nora.close();
    const late = await opened(link);
    late.allow(/^401 POST \/auth\/password-link$/);
    await button("Set the password", late).click();
    await late.getByText("This link is not valid any more.").waitFor();
    late.forbid();
    await look(late, "welcome-ended");
    await late.close();

    await button("Open the user nora").click();
    await button("Link to a new password", dialog()).click();
    const asks = page.getByRole("dialog", { name: "A link to a new password for nora" });
    await look(page, "user-link");
    await button("Make the link", asks).click();
    const again = await opened(await copied(page.getByRole("dialog", { name: "Hand this link to nora" })));
    await button("Set the password", again).click();
    await rail(again).waitFor();
    await again.close();
    await closed(page.getByRole("dialog"));
  });

  await step("the last owner can't be removed, and the page says why; who can be is typed before they are", async () => {
    await button("Open the user ada").click();
    await dialog().getByText("This is the last owner").waitFor();
    assert.ok(await button("Delete", dialog()).isDisabled());
    await look(page, "user");
    await closed(page.getByRole("dialog"));
    await button("Open the user uma").click();
    await button("Disable", dialog()).click();
    const disables = page.getByRole("dialog", { name: "Disable uma?" });
    await look(page, "user-disable");
    await button("Cancel", disables).click();
    await disables.waitFor({ state: "detached" });
    await button("Delete", dialog()).click();
    const asks = page.getByRole("dialog", { name: "Delete uma?" });
    assert.ok(await button("Delete", asks).isDisabled(), "the name is typed first");
    await look(page, "user-delete");
    await button("Cancel", asks).click();
    await asks.waitFor({ state: "detached" });
    await closed(page.getByRole("dialog"));
  });

  await step("one's own sessions are listed in the profile, and one or all others are ended there", async () => {
    const [olga, ...others] = [
      await gateway.page({ as: "olga" }), await gateway.page({ as: "olga" }), await gateway.page({ as: "olga" }),
    ];
    await olga.goto(`${gateway.ui}/profile`);
    const sessions = olga.getByRole("region", { name: "Sessions" }).last();
    await sessions.getByText("this one, now").waitFor();
    await look(olga, "own-sessions");
    await button("End", sessions).first().click();
    const one = olga.getByRole("dialog", { name: "End this session?" });
    await button("End", one).click();
    await one.waitFor({ state: "detached" });
    await button("End all others", olga).click();
    const all = olga.getByRole("dialog", { name: "End all your other sessions?" });
    await button("End all others", all).click();
    await all.waitFor({ state: "detached" });
    await button("End all others", olga).waitFor({ state: "detached" });
    for (const other of others) {
      await other.goto(`${gateway.ui}/profile`);
      await heading(other, "Sign in").waitFor();
      await other.close();
    }
    await sessions.getByText("this one, now").waitFor();
    await olga.close();
  });

  await step("a token for scripts is made in the profile, shown once, and can be revoked there and by an admin", async () => {
    await page.goto(`${gateway.ui}/profile`);
    await button("Create a token").click();
    const form = page.getByRole("dialog", { name: "Create a token" });
    await form.getByLabel("Name", { exact: true }).fill("ci");
    await button("Create", form).click();
    await form.getByText("Choose at least one area.").waitFor();
    await look(page, "token-form");
    await form.getByRole("group", { name: "Models", exact: true }).getByRole("radio", { name: "Read", exact: true }).check();
    await button("Create", form).click();
    const made = page.getByRole("dialog", { name: "The token is created" });
    await made.getByRole("button", { name: "Copy" }).click();
    const secret = await page.evaluate(() => navigator.clipboard.readText());
    const ask = () => fetch(`${gateway.url}/admin/models`, { headers: { authorization: `Bearer ${secret}` } }).then((it) => it.status);
    assert.equal(await ask(), 200);
    await look(page, "token-made");
    await button("I have saved it", made).click();
    await row("ci").waitFor();
    await look(page, "profile");
    await go("Users");
    await button("Open the user ada").click();
    await button("Revoke", dialog()).click();
    const asks = page.getByRole("dialog", { name: "Revoke the token ci?" });
    await look(page, "token-revoke");
    await button("Revoke", asks).click();
    await dialog().getByText("No token.").waitFor();
    assert.equal(await ask(), 401);
    await closed(page.getByRole("dialog"));
  });

  await step("usage shows the key's requests, and filters by what is clicked", async () => {
    // A stream, and a refusal.
    for (const [model, stream] of [["demo", true], ["no-such-model", false]])
      await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "Hello" }] }),
      }).then((it) => it.text());
    const asked = async (model) => (await api("GET", `/admin/usage?limit=10&model=${model}`)).length > 0;
    await until("their rows", async () => (await asked("demo")) && asked("no-such-model"));
    await go("Usage");
    await button("Show only no-such-model").first().waitFor();
    await look(page, "usage");
    await button("Show only demo").last().click();
    await page.waitForURL(/model=demo/);
    await row("no-such-model").first().waitFor({ state: "detached" });
    await page.getByRole("button", { name: /^Open the request/ }).first().click();
    await dialog().getByText("Until the first token").waitFor();
    await look(page, "request");
    await closed(page.getByRole("dialog"));
    // The id in an error leads to its request.
    const refused = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "nowhere-else", messages: [] }),
    }).then((it) => it.json());
    await until("its row", async () => (await api("GET", `/admin/usage?req_id=${refused.request_id}`)).length === 1);
    await page.goto(`${gateway.ui}/usage`);
    await page.getByRole("searchbox", { name: "Request id" }).fill(refused.request_id);
    const requests = page.getByRole("table", { name: "Requests", exact: true }).getByRole("row");
    await requests.filter({ hasText: "nowhere-else" }).waitFor();
    await requests.filter({ hasText: "demo" }).first().waitFor({ state: "detached" });
    await page.getByRole("searchbox", { name: "Request id" }).fill("no-such-id");
    await page.getByText("No request has this id.").waitFor();
    await page.goto(`${gateway.ui}/usage?model=demo`);
  });

  await step("a CSV has as many rows as the page said before, and only those that are filtered", async () => {
    await button("Download CSV").click();
    const csv = page.getByRole("dialog", { name: "Download as CSV" });
    const count = Number(/^(\d+) rows?/.exec(await csv.getByText(/^\d+ rows?/).textContent())[1]);
    await look(page, "csv");
    const [file] = await Promise.all([page.waitForEvent("download"), csv.getByRole("button", { name: "Download" }).click()]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
    assert.equal(lines.length - 1, count);
    assert.ok(lines.slice(1).every((it) => it.includes("demo")));
    await csv.waitFor({ state: "detached" });
  });

  await step("rows and sums of the usage agree, on demand", async () => {
    await button("Check now").click();
    await page.getByText(/^Rows and sums agree/).waitFor();
    await look(page, "usage-integrity");
    await button("Clear the filters").click();
    await row("no-such-model").first().waitFor();
  });

  await step("revoking a key names its last use, and ends it at once", async () => {
    await go("Keys");
    await button("Open the key desk").click();
    await button("Revoke", dialog()).click();
    const asks = page.getByRole("dialog", { name: "Revoke the key desk?" });
    await asks.getByText(/It was last used/).waitFor();
    await look(page, "key-revoke");
    await button("Revoke", asks).click();
    await asks.waitFor({ state: "detached" });
    await dialog().getByText("Revoked").first().waitFor();
    assert.equal(await button("Edit", dialog()).count(), 0);
    await closed(page.getByRole("dialog"));
    await row("desk").getByText("Revoked").waitFor();
    const { status } = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(status, 401);
  });

  await step("a search that finds nothing says so, and is cleared with one button", async () => {
    await page.getByRole("searchbox", { name: "Search name or prefix" }).fill("nothing has this name");
    await page.getByText("No key matches.").waitFor();
    await look(page, "keys-none");
    await button("Clear the filters").click();
    await row("desk").waitFor();
  });

  await step("an org admin sees and does only what belongs to their organisation", async () => {
    const olga = await gateway.page({ as: "olga" });
    await olga.goto(`${gateway.ui}/users`);
    await row("uma", olga).waitFor();
    assert.equal(await row("ada", olga).count(), 0);
    await button("Create user", olga).click();
    assert.equal(await dialog(olga).getByLabel("Admin", { exact: true }).count(), 0, "nobody gives a higher role");
    await dialog(olga).getByLabel("Org admin").check();
    assert.equal(await dialog(olga).getByLabel("Requests a minute").count(), 0, "nor limits of their equals");
    await escape(olga);
    await button("Discard", olga).click();
    await olga.getByRole("dialog").first().waitFor({ state: "detached" });
    await go("Organisations", olga);
    await row("Acme", olga).waitFor();
    assert.equal(await button("Create organisation", olga).count(), 0);
    await go("Usage", olga);
    await olga.getByRole("heading", { name: "Requests" }).waitFor();
    assert.equal(await button("Check now", olga).count(), 0);
    await olga.close();
  });

  await step("a user has their own keys, usage and limits, also on a phone and in German", async () => {
    const uma = await gateway.page({ as: "uma", width: 390, locale: "de-DE" });
    await uma.goto(`${gateway.ui}/keys`);
    await uma.getByText("Es gibt noch keinen Schlüssel.").waitFor();
    await look(uma, "own-keys-empty");
    await uma.getByRole("button", { name: "Schlüssel erstellen" }).first().click();
    assert.equal(await dialog(uma).getByText("Für wen er ist").count(), 0);
    await dialog(uma).getByLabel("Name", { exact: true }).fill("مفتاح 鍵 🔑");
    await dialog(uma).getByRole("button", { name: "Schlüssel erstellen" }).click();
    await uma.getByRole("button", { name: "Ich habe es gespeichert" }).click();
    await row("مفتاح", uma).waitFor();
    await look(uma, "own-keys", { widths: [390] });
    await uma.goto(`${gateway.ui}/usage`);
    await uma.getByText("Keine Anfrage passt.").waitFor();
    // Their own file has sums: the one with every request is for those who manage usage.
    await uma.getByRole("button", { name: "CSV herunterladen" }).click();
    const own = uma.getByRole("dialog", { name: "Als CSV herunterladen" });
    await own.getByText(/^Keine Zeile passt/).waitFor();
    assert.equal(await own.getByRole("radio").count(), 0);
    await escape(uma);
    await own.waitFor({ state: "detached" });
    await look(uma, "own-usage", { widths: [390] });
    await uma.goto(`${gateway.ui}/profile`);
    await uma.getByRole("meter", { name: "Anfragen je Minute" }).first().waitFor();
    await look(uma, "own-profile", { widths: [390] });
    await uma.goto(`${gateway.ui}/users`);
    await uma.getByText("Diese Seite braucht die Rolle").waitFor();
    await uma.close();
  });
}
