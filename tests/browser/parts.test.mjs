// Parts of the script that are lost on the way: a network that changed, a gateway that was upgraded while the page was open.
import assert from "node:assert/strict";
import { heading, look, rail, startGateway, test, until } from "./harness.mjs";

const LOST = [/^lost GET \/ui\/assets\//, /^404 GET \/ui\/assets\//, /dynamically imported module/, /is lost|PartError/];
const part = (name) => new RegExp(`/ui/assets/${name}-[^/]+\\.js$`);

/** Has the part called `name` lost the first `times` times that it is asked for. Returns how often it was asked for. */
async function lose(page, name, times = Number.POSITIVE_INFINITY) {
  const asked = { count: 0 };
  await page.route(part(name), (route) => {
    asked.count += 1;
    return asked.count <= times ? route.abort("connectionfailed") : route.fallback();
  });
  return asked;
}

/** Counts how often the page is loaded. */
function loads(page) {
  const seen = { count: 0 };
  page.on("domcontentloaded", () => (seen.count += 1));
  return seen;
}

const openPage = async (gateway, path, title) => {
  const page = await gateway.page({ as: "ada" });
  page.allow(...LOST);
  await page.goto(`${gateway.ui}${path}`);
  await heading(page, title).waitFor();
  return page;
};

export default async function () {
  const gateway = await startGateway();

  await test("a page whose part is lost once comes all the same, and nothing is loaded anew", async () => {
    const page = await openPage(gateway, "/", "Overview");
    const loaded = loads(page);
    const asked = await lose(page, "audit", 1);
    await rail(page).getByRole("link", { name: "Audit", exact: true }).click();
    await heading(page, "Audit").waitFor();
    assert.ok(asked.count >= 2, "it was asked for again");
    assert.equal(loaded.count, 0);
  });

  await test("a page whose part is gone is loaded anew once, then says so, and does not go on loading", async () => {
    const page = await openPage(gateway, "/", "Overview");
    const loaded = loads(page);
    const asked = await lose(page, "audit");
    await rail(page).getByRole("link", { name: "Audit", exact: true }).click();
    const alert = page.getByRole("alert").filter({ hasText: "A part of this page could not be loaded." });
    await alert.waitFor();
    assert.equal(loaded.count, 1);
    await look(page, "part-lost");
    // The other pages work, and this one comes once its part is there again.
    await rail(page).getByRole("link", { name: "Models", exact: true }).click();
    await heading(page, "Models").waitFor();
    await page.goBack();
    await alert.waitFor();
    assert.equal(loaded.count, 1);
    await page.unroute(part("audit"));
    await page.getByRole("button", { name: "Try again" }).click();
    await heading(page, "Audit").waitFor();
    assert.ok(asked.count >= 3);
  });

  await test("a part that is lost again much later is fetched by one more load", async () => {
    const page = await openPage(gateway, "/", "Overview");
    const loaded = loads(page);
    await page.evaluate(() => sessionStorage.setItem("gantry.loaded-again", String(Date.now() - 60_000)));
    const asked = await lose(page, "audit", 6);
    await rail(page).getByRole("link", { name: "Audit", exact: true }).click();
    await until("the load", async () => loaded.count === 1);
    asked.count = 6;
    await heading(page, "Audit").waitFor();
    assert.equal(loaded.count, 1);
  });

  await test("a chart that can't be fetched has a button in its place, and the page around it stays", async () => {
    const page = await openPage(gateway, "/", "Overview");
    const loaded = loads(page);
    await lose(page, "plots");
    await page.goto(`${gateway.ui}/system`);
    await heading(page, "System").waitFor();
    const alert = page.getByRole("alert").filter({ hasText: "A part of this page could not be loaded." }).first();
    await alert.waitFor();
    await page.unroute(part("plots"));
    await alert.getByRole("button", { name: "Try again" }).click();
    await alert.getByRole("button", { name: "Try again" }).waitFor({ state: "detached" });
    assert.equal(loaded.count, 1, "only the load of the test itself");
  });

  await test("German that can't be fetched leaves the page in English, which works", async () => {
    const page = await gateway.page({ as: "ada", locale: "de-DE" });
    page.allow(...LOST);
    await lose(page, "german");
    await page.goto(`${gateway.ui}/models`);
    await heading(page, "Models").waitFor();
    await page.unroute(part("german"));
    await page.goto(`${gateway.ui}/models`);
    await heading(page, "Modelle").waitFor();
  });

  for (const lost of ["index", "libraries"])
    await test(`without ${lost} there is a text with a link, and the link works`, async () => {
      const page = await gateway.page({ as: "ada" });
      page.allow(...LOST);
      await lose(page, lost);
      // By the clock of the page, which begins with its load.
      await page.addInitScript(() => {
        const look = () => {
          if (document.querySelector("a")?.checkVisibility({ visibilityProperty: true })) window.shownAfter = performance.now();
          else requestAnimationFrame(look);
        };
        look();
      });
      await page.goto(`${gateway.ui}/models?q=tiny`);
      const link = page.getByRole("link", { name: /Load again/ });
      await link.waitFor();
      const shown = await (await page.waitForFunction(() => window.shownAfter)).jsonValue();
      assert.ok(shown > 2000, `nothing flashes while the script is on its way: the link came after ${shown} ms`);
      await page.unroute(part(lost));
      await link.click();
      await heading(page, "Models").waitFor();
      assert.match(page.url(), /\/models\?q=tiny$/);
    });
}
