// From the first start to a session, out of it, and who can do nothing with it.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { atEnd, heading, look, PASSWORD, rail, signIn, startGateway, step } from "./harness.mjs";

/** Answers every request with a small page of somebody else. Returns its port. */
async function elsewhere(seen = () => {}) {
  const server = createServer((request, answer) => {
    seen(request);
    answer.setHeader("content-type", "text/html").end("<p>elsewhere");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  atEnd(async () => server.close());
  return server.address().port;
}

export default async function () {
  const gateway = await startGateway({ owner: false });
  const page = await gateway.page();
  const overview = () => heading(page, "Overview").waitFor();
  const whoAmI = () => page.evaluate(() => fetch("/auth/me").then((answer) => answer.status));

  await step("without an owner the page says how to make one; on the gateway's machine no token is needed", async () => {
    // As from another machine: a header of a proxy.
    await page.context().setExtraHTTPHeaders({ "x-forwarded-for": "192.0.2.1" });
    await page.goto(`${gateway.ui}/`);
    await heading(page, "Set up Gantry").waitFor();
    await page.getByText("Open the set-up link that the gateway printed").waitFor();
    await page.getByText("gantry owner create NAME").waitFor();
    assert.equal(await page.getByRole("textbox").count(), 0, "there is nothing to fill in");
    await look(page, "set-up-no-owner");
    await page.context().setExtraHTTPHeaders({});
    await page.getByRole("button", { name: "Look again" }).click();
    await page.getByRole("textbox", { name: "Organisation" }).waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Set-up token" }).count(), 0);
  });

  await step("the printed link works in a tab that is open, makes the first owner and signs them in", async () => {
    await page.context().setExtraHTTPHeaders({ "x-forwarded-for": "192.0.2.1" });
    await page.goto(`${gateway.ui}/`);
    await page.getByRole("button", { name: "Look again" }).waitFor();
    // Only the fragment changes: nothing is loaded anew.
    const token = gateway.setup.split("=")[1];
    await page.evaluate((hash) => { location.hash = hash; }, `setup=${token}`);
    const field = page.getByRole("textbox", { name: "Set-up token" });
    await field.waitFor();
    assert.equal(await field.inputValue(), token);
    await page.getByRole("textbox", { name: "Organisation" }).fill("Acme");
    await page.getByRole("textbox", { name: "User name" }).fill("ada");
    await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await look(page, "set-up-link");
    await page.getByRole("button", { name: "Create the owner" }).click();
    await overview();
    await rail(page).getByRole("button", { name: /ada/ }).getByText("Owner").waitFor();
    assert.equal(new URL(page.url()).hash, "", "the token is gone from the address");
  });

  await step("the link a second time leads into the pages, without a token in the address", async () => {
    await page.context().setExtraHTTPHeaders({});
    await page.goto("about:blank");
    await page.goto(`${gateway.ui}/#setup=${gateway.setup.split("=")[1]}`);
    await overview();
    assert.equal(new URL(page.url()).hash, "");
  });

  await step("signing out ends the session; a wrong password is refused, the right one leads to the page that was asked for", async () => {
    await rail(page).getByRole("button", { name: /ada/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await heading(page, "Sign in").waitFor();
    assert.equal(await whoAmI(), 401);
    await look(page, "sign-in");
    await page.goto(`${gateway.ui}/usage?range=1h`);
    await heading(page, "Sign in").waitFor();
    page.allow(/^401 POST \/auth\/login$/);
    await signIn(page, "ada", "wrong");
    await page.getByRole("alert").getByText("The user name or the password is wrong.").waitFor();
    await look(page, "sign-in-wrong");
    await signIn(page);
    await heading(page, "Usage").waitFor();
    assert.match(page.url(), /\/usage\?range=1h$/);
  });

  await step("a link of somebody else does not lead elsewhere after the sign-in", async () => {
    const other = await gateway.page();
    await other.goto(`${gateway.ui}/login?to=${encodeURIComponent("//example.invalid/")}`);
    await signIn(other);
    await heading(other, "Overview").waitFor();
    assert.equal(new URL(other.url()).origin, new URL(gateway.ui).origin);
    await other.close();
  });

  await step("a page of another port reads nothing with the session, and gets no cookie from a link of another site", async () => {
    const seen = [];
    // What the page itself asks for, its icon say, is of the same site.
    const port = await elsewhere((request) => { if (request.url === "/") seen.push(request.headers.cookie ?? ""); });
    const here = `http://127.0.0.1:${port}/`;
    await page.goto(`http://localhost:${port}/`);
    await Promise.all([page.waitForURL(here), page.evaluate((to) => { location.href = to; }, here)]);
    assert.equal(seen.filter((it) => it.includes("svc_session")).length, 0, "the cookie went to another port");
    // From there the browser sends the cookie, as both are one site to it.
    const target = `${gateway.url}/auth/me`;
    page.allow(/^403 GET \/auth\/me$/);
    const [answer] = await Promise.all([
      page.waitForResponse(target), page.evaluate((to) => { location.href = to; }, target),
    ]);
    assert.equal(answer.status(), 403);
    assert.match(await answer.text(), /cross_site_request/);
  });

  await step("a page of another site can do nothing with the session", async () => {
    // By name it is another site than the gateway, which goes by its address.
    await page.goto(`http://localhost:${await elsewhere()}/`);
    page.allow(/^40\d POST \/auth\/logout$/, /^lost POST \/auth\/logout/, /Cross-Origin|CORS|blocked/i);
    const answer = await page.evaluate(
      (target) => fetch(target, { method: "POST", credentials: "include", mode: "no-cors" }).then((it) => it.type, () => "kept back"),
      `${gateway.url}/auth/logout`,
    );
    assert.equal(answer, "kept back", "the gateway's answers are for its own pages (Cross-Origin-Resource-Policy)");
    await page.goto(`${gateway.ui}/`);
    await overview();
    assert.equal(await whoAmI(), 200, "still signed in");
  });
}
