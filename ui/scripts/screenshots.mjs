// Pictures of every page and dialog, in both themes and two widths, with axe on each: node scripts/screenshots.mjs [NAME…] →
// screenshots/. It starts its own gateways (GANTRY, or the program that `cargo build` makes) with simulated engines and some life
// in them. NAME is a part of the names of those to take; UI_DIST as in tests/browser/harness.mjs.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const root = new URL("../../", import.meta.url).pathname;
process.env.GANTRY ??= join(root, "target/debug/gantry");
process.env.SHOTS ??= join(root, "ui/screenshots");
mkdirSync(process.env.SHOTS, { recursive: true });
const { closeBrowser, counts, endAll, heading, look, PASSWORD, rail, startGateway, test, until } =
  await import("../../tests/browser/harness.mjs");
const { crowd, fill, setOut } = await import("../../tests/browser/life.mjs");
const { startWithGpus } = await import("../../tests/browser/gpus.mjs");
const { GERMAN, many, ofRoles, onGpus, onTheWay, owner } = await import("./shots.mjs");

const wanted = process.argv.slice(2);
const isWanted = (name) => wanted.length === 0 || wanted.some((it) => name.includes(it));
const chosen = (list) => list.filter(([name]) => isWanted(name));

/** Takes pictures of pages, one after the other: what each is called, its address, and what to do there before. */
async function take(of, page, list, options) {
  for (const [name, path, act = async () => {}, allowed = []] of list)
    await test(name, async () => {
      page.allow(...allowed);
      await page.goto(`${of.ui}${path}`);
      // A dialog that the address opens hides it from readers.
      await page.getByRole("heading", { level: 1, includeHidden: true }).first().waitFor();
      // Pictures show what was loaded, not its outline.
      await page.waitForLoadState("load");
      await until("quiet", async () => page.pending() === 0);
      await act(page);
      await until("quiet", async () => page.pending() === 0);
      // Charts come in a part of their own, which is asked for once there is something to draw.
      await page.waitForTimeout(300);
      await until("quiet", async () => page.pending() === 0);
      await page.evaluate(() => scrollTo(0, 0));
      await look(page, name, options);
      await page.unrouteAll({ behavior: "ignoreErrors" });
      page.forbid();
    });
}

const gateway = await startGateway({ engine: "--sim-tokens-per-sec 60" });
const life = await fill(gateway);
const page = await gateway.page({ as: "ada" });
await take(gateway, page, chosen(owner(life)));

const NONE = { slow: {}, back: {}, other: {} };
if (chosen(onTheWay(NONE)).length > 0) await take(gateway, page, chosen(onTheWay(await setOut(gateway))));

for (const [username, list] of Object.entries(ofRoles()).map(([it, all]) => [it, chosen(all)])) {
  if (list.length === 0) continue;
  const theirs = await gateway.page({ as: username });
  await take(gateway, theirs, list);
  await theirs.close();
}

if (chosen(GERMAN(life)).length > 0) {
  const german = await gateway.page({ as: "ada", locale: "de-DE" });
  await take(gateway, german, chosen(GERMAN(life)), { themes: ["light"] });
  await german.close();
}

const fresh = await startGateway({ owner: false });
const outside = [
  ["set-up", `${fresh.ui}/`, fresh],
  ["set-up-no-owner", `${fresh.ui}/`, fresh, { headers: { "x-forwarded-for": "192.0.2.1" } }],
  ["sign-in", `${gateway.ui}/login`, gateway],
  ["german-set-up", `${fresh.ui}/`, fresh, { locale: "de-DE" }],
  ["german-sign-in", `${gateway.ui}/login`, gateway, { locale: "de-DE" }],
];
for (const [name, path, of, options] of chosen(outside))
  await test(name, async () => {
    const it = await of.page(options);
    await it.goto(path);
    await it.getByRole("heading", { level: 1 }).waitFor();
    await look(it, name);
    await it.close();
  });

if (isWanted("signed-out"))
  await test("signed-out", async () => {
    await page.goto(`${gateway.ui}/keys`);
    await heading(page, "Keys").waitFor();
    await page.context().clearCookies();
    page.allow(/^401 /);
    const again = page.getByRole("dialog", { name: "You are signed out" });
    // Something that the page asks by itself may be the first to be refused.
    await rail(page)
      .getByRole("link", { name: "Users", exact: true })
      .click({ timeout: 1000 })
      .catch(() => {});
    await again.waitFor();
    await look(page, "signed-out");
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await again.getByRole("button", { name: "Sign in", exact: true }).click();
    await again.waitFor({ state: "detached" });
    page.forbid();
  });
if (isWanted("gateway-lost")) {
  const lost = page.getByText(/^The gateway has not answered since/);
  await test("gateway-lost", async () => {
    await page.goto(`${gateway.ui}/`);
    await heading(page, "Overview").waitFor();
    page.allow(/./);
    await gateway.kill();
    await lost.waitFor();
    await look(page, "gateway-lost");
    // The parts of the next page are there already: they come with the build, not from the gateway.
    await rail(page).getByRole("link", { name: "Playground", exact: true }).click();
    await heading(page, "Playground").waitFor();
    await look(page, "gateway-lost-playground");
    await gateway.start();
    await lost.waitFor({ state: "detached", timeout: 60_000 });
    page.forbid();
  });
}

if (chosen(onGpus({ holder: {}, hub: {} })).length > 0) {
  const withGpus = await startWithGpus();
  await take(withGpus.gateway, await withGpus.gateway.page({ as: "ada" }), chosen(onGpus(withGpus)));
}

if (chosen(many()).length > 0) {
  const crowded = await startGateway();
  await crowd(crowded);
  await take(crowded, await crowded.page({ as: "ada" }), chosen(many()));
}
await endAll();
await closeBrowser();
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed === 0 ? 0 : 1);
