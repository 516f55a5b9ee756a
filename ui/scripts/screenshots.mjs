// Pictures of every page and dialog, in both themes and two widths, with axe on each: node scripts/screenshots.mjs [NAME…] →
// screenshots/. It starts its own gateway (GANTRY, or the program that `cargo build` makes) with simulated engines and some life
// in it. NAME is a part of the names of those to take; UI_DIST as in tests/browser/harness.mjs.
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const root = new URL("../../", import.meta.url).pathname;
process.env.GANTRY ??= join(root, "target/debug/gantry");
process.env.SHOTS ??= join(root, "ui/screenshots");
mkdirSync(process.env.SHOTS, { recursive: true });
const { closeBrowser, counts, endAll, heading, look, PASSWORD, rail, startGateway, test, until } =
  await import("../../tests/browser/harness.mjs");
const { fill } = await import("../../tests/browser/life.mjs");

const wanted = process.argv.slice(2);
const isWanted = (name) => wanted.length === 0 || wanted.some((it) => name.includes(it));

const fresh = await startGateway({ owner: false });
const gateway = await startGateway({ engine: "--sim-tokens-per-sec 60" });
const life = await fill(gateway);
const model = `/models/${life.running.id}`;
const failed = `/models/${life.failed.id}`;
const press = (name) => (page) => page.getByRole("button", { name }).first().click();
const menu = (name, item) => async (page) => {
  await page.getByRole("button", { name }).first().click();
  await page.getByRole("menuitem", { name: item }).click();
};
const inDialog = (open) => async (page) => {
  await open(page);
  await page.getByRole("dialog").last().waitFor();
};

/** Name, address, and what to do there before the picture. */
const SHOTS = [
  ["overview", "/"],
  ["models", "/models"],
  ["models-filtered-to-nothing", "/models?q=nothing-has-this-name"],
  ["models-stop", "/models", inDialog(press(`Stop: ${life.running.served_name}`))],
  ["models-entry-add", "/models", inDialog(press("Add an engine elsewhere"))],
  ["deploy", "/models/new"],
  [
    "deploy-checked",
    "/models/new",
    async (page) => {
      await page.getByRole("list", { name: "In the models folder" }).getByRole("button").first().click();
      await page.getByRole("textbox", { name: "Served name" }).fill("another");
      await page.getByText("Nothing speaks against a start.").waitFor();
    },
  ],
  ...["overview", "configuration", "logs", "metrics", "test", "timeline"].map((tab) => [
    `model-${tab}`,
    `${model}?tab=${tab}`,
  ]),
  ["model-failed", failed],
  ["model-failed-logs", `${failed}?tab=logs`],
  ["model-delete", failed, inDialog(menu(/^More/, "Delete"))],
  ["model-archive", failed, inDialog(menu(/^More/, "Archive"))],
  ["model-gone", "/models/999999", undefined, [/^404 /]],
  ["playground", "/playground"],
  ["playground-chat", `/playground/${life.chat.id}`],
  ["playground-parameters", "/playground", press("Parameters")],
  ["playground-copy", `/playground/${life.chat.id}`, inDialog(press("Copy the conversation"))],
  ["playground-embedding", "/playground?tab=embedding"],
  ["playground-rerank", "/playground?tab=rerank"],
  ["usage", "/usage"],
  ["usage-empty", "/usage?model=nothing-has-this-name"],
  ["usage-request", "/usage", inDialog(press(/^Open the request/))],
  ["usage-csv", "/usage", inDialog(press("Download CSV"))],
  ["keys", "/keys"],
  ["keys-create", "/keys?dialog=create", inDialog(async () => {})],
  ["keys-key", "/keys", inDialog(press("Open the key laptop"))],
  [
    "keys-edit",
    "/keys",
    inDialog(async (page) => {
      await press("Open the key laptop")(page);
      await page.getByRole("dialog").getByRole("button", { name: "Edit" }).click();
    }),
  ],
  [
    "keys-revoke",
    "/keys",
    inDialog(async (page) => {
      await press("Open the key laptop")(page);
      await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    }),
  ],
  ["users", "/users"],
  ["users-create", "/users", inDialog(press("Create user"))],
  ["users-user", "/users", inDialog(press("Open the user ada"))],
  ["organisations", "/organisations"],
  ["organisations-create", "/organisations", inDialog(press("Create organisation"))],
  ["organisations-one", "/organisations", inDialog(press("Open the organisation Acme"))],
  ["audit", "/audit"],
  ["audit-row", "/audit", inDialog(press("ada created a user"))],
  ["system", "/system"],
  ["images", "/images"],
  ["deployment-jobs", "/deployment"],
  ["deployment-export", "/deployment?tab=export&dir=second"],
  ["deployment-import", "/deployment?tab=import&dir=first", press("Check the package")],
  ["deployment-restore", "/deployment?tab=restore&dir=first"],
  ["settings", "/settings"],
  ["settings-folder", "/settings", inDialog(press(/^Change/))],
  ["api-reference", "/api-reference"],
  ["api-reference-operation", "/api-reference?op=listModels"],
  ["profile", "/profile"],
  ["profile-token", "/profile?dialog=create-token", inDialog(async () => {})],
  ["not-found", "/no/such/page"],
  ["command-menu", "/", inDialog((page) => page.keyboard.press("Control+k"))],
  ["shortcuts", "/", inDialog((page) => page.keyboard.press("?"))],
  ["account-menu", "/", async (page) => rail(page).getByRole("button", { name: /ada/ }).click()],
];

const page = await gateway.page({ as: "ada" });
for (const [name, path, act = async () => {}, allowed = []] of SHOTS.filter(([it]) => isWanted(it))) {
  await test(name, async () => {
    page.allow(...allowed);
    await page.goto(`${gateway.ui}${path}`);
    await page.getByRole("heading").first().waitFor();
    // Pictures show what was loaded, not its outline.
    await page.waitForLoadState("load");
    await until("quiet", async () => page.pending() === 0);
    await act(page);
    await until("quiet", async () => page.pending() === 0);
    // Charts come in a part of their own, which is asked for once there is something to draw.
    await page.waitForTimeout(300);
    await until("quiet", async () => page.pending() === 0);
    await look(page, name);
    page.forbid();
  });
}
const outside = [
  ["set-up", async (it) => it.goto(`${fresh.ui}/`), fresh],
  ["set-up-no-owner", async (it) => it.goto(`${fresh.ui}/`), fresh, { "x-forwarded-for": "192.0.2.1" }],
  ["sign-in", async (it) => it.goto(`${gateway.ui}/login`), gateway],
];
for (const [name, go, of, headers] of outside.filter(([it]) => isWanted(it))) {
  await test(name, async () => {
    const it = await of.page({ headers });
    await go(it);
    await it.getByRole("heading", { level: 1 }).waitFor();
    await look(it, name);
    await it.close();
  });
}
if (isWanted("signed-out"))
  await test("signed-out", async () => {
    await page.goto(`${gateway.ui}/keys`);
    await heading(page, "Keys").waitFor();
    await page.context().clearCookies();
    page.allow(/^401 /);
    await rail(page).getByRole("link", { name: "Users", exact: true }).click();
    const again = page.getByRole("dialog", { name: "You are signed out" });
    await again.waitFor();
    await look(page, "signed-out");
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await again.getByRole("button", { name: "Sign in", exact: true }).click();
    await again.waitFor({ state: "detached" });
    page.forbid();
  });
if (isWanted("gateway-lost"))
  await test("gateway-lost", async () => {
    await page.goto(`${gateway.ui}/`);
    await heading(page, "Overview").waitFor();
    page.allow(/./);
    await gateway.kill();
    await page.getByText(/^The gateway has not answered since/).waitFor();
    await look(page, "gateway-lost");
    await gateway.start();
  });
await endAll();
await closeBrowser();
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed === 0 ? 0 : 1);
