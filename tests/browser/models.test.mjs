// Models: from a file to a running engine, what failed and why, settings, logs, engines elsewhere, and the way out again.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, look, startGateway, step, until } from "./harness.mjs";

const FIRST = "tiny-llama-Q8_0";

export default async function () {
  const gateway = await startGateway();
  mkdirSync(join(gateway.models, "llamas"));
  for (const name of [FIRST, "tiny-llama-F16"]) writeGguf(join(gateway.models, `llamas/${name}.gguf`), { name, context: 8192 });
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada" });
  const main = page.getByRole("main");
  const dialog = page.getByRole("dialog");
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const row = (name) => page.getByRole("row", { name });
  // While a model starts, a second row shows how far it is.
  const goneRow = (name) => row(name).first().waitFor({ state: "detached" });
  const tab = async (name) => page.getByRole("tab", { name, exact: true }).click();
  const runs = () => main.getByText("Running", { exact: true }).first().waitFor();
  const open = async (path, title) => {
    await page.goto(`${gateway.ui}${path}`);
    await heading(page, title).waitFor();
  };
  const record = { engine_type: "llamacpp", local_path: "llamas/tiny-llama-F16.gguf" };
  let first;

  await step("the empty list says how to add a model", async () => {
    await open("/models", "Models");
    await page.getByText("Gantry runs no model yet.").waitFor();
    await look(page, "models-empty");
  });

  await step("from a file in the models folder to a running model it takes three decisions", async () => {
    await main.getByRole("link", { name: "Add a model" }).first().click();
    const folder = page.getByRole("button", { name: /llamas/ });
    await folder.getByText("llama.cpp").waitFor();
    await folder.click();
    await page.getByRole("radio", { name: /Q8_0/ }).check();
    await page.getByText("Nothing speaks against a start.").waitFor();
    await look(page, "deploy-form");
    await button("Save and start").click();
    await heading(page, FIRST).waitFor();
    await runs();
    first = (await api("GET", "/admin/models")).find((it) => it.served_name === FIRST).id;
    await look(page, "model");
  });

  await step("settings change the command that is shown, and what is changed can be reset", async () => {
    await open("/models/new?pick=llamas", "Add a model");
    const command = page.getByRole("region", { name: "Command" });
    await page.getByRole("textbox", { name: /context_size/ }).fill("4096");
    await command.getByText("--ctx-size 4096").first().waitFor();
    await button("Reset context_size").click();
    await command.getByText("--ctx-size 8192").first().waitFor();
    await page.getByRole("searchbox", { name: "Find a setting" }).fill("seed");
    await page.getByRole("textbox", { name: "seed" }).waitFor();
    await look(page, "deploy-find");
  });

  await step("a number that can't be read is not taken for an empty field", async () => {
    await page.getByRole("searchbox", { name: "Find a setting" }).fill("");
    const context = page.getByRole("textbox", { name: /context_size/ });
    await context.fill("much");
    for (const name of ["Save and start", "Save"]) {
      await button(name).click();
      await until("the focus", () => context.evaluate((it) => it === document.activeElement));
      await button(name).focus();
    }
    await context.fill("");
    assert.equal((await api("GET", "/admin/models")).length, 1);
  });

  await step("what the gateway refuses lands on its field, and nothing typed is lost", async () => {
    await page.getByLabel("Served name").fill(FIRST);
    page.allow(/^4\d\d POST \/admin\/models/);
    await button("Save").click();
    await page.getByRole("alert").filter({ hasText: /is served as/ }).first().waitFor();
    page.forbid();
    assert.equal(await page.getByLabel("Served name").inputValue(), FIRST);
    await look(page, "deploy-refused");
  });

  await step("a failure shows cause and setting on its row, and leads to the setting that mends it", async () => {
    await api("POST", "/admin/models", { ...record, served_name: "mended", extra_args: ["--bogus-flag"] });
    await open("/models", "Models");
    await button("Start: mended").click();
    await page.getByText("Argument unknown to this version").first().waitFor();
    await page.getByRole("link", { name: "Why" }).click();
    await page.getByRole("log").getByText("--bogus-flag").first().waitFor();
    await look(page, "model-log-of-failure");
    await page.getByRole("link", { name: "Change extra_args" }).click();
    await page.getByRole("textbox", { name: /extra_args/ }).fill("");
    await button("Save and apply").click();
    await button("Apply", dialog).waitFor();
    await look(page, "model-apply");
    await button("Apply", dialog).click();
    await runs();
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.getByRole("combobox", { name: "Which run" }).selectOption("Run before");
    await page.getByRole("log").getByText("--bogus-flag").first().waitFor();
    await page.getByText("The engine of this run was removed").waitFor();
    assert.equal(await button("Follow").count(), 0, "a log that has ended can't be followed");
    await look(page, "model-log-of-run-before");
  });

  await step("a start shows its phases and its log", async () => {
    // Long enough to be looked at; it is deleted while it loads.
    const slow = await api("POST", "/admin/models", { ...record, served_name: "slow", extra_args: ["--sim-load-seconds", "600"] });
    await open("/models", "Models");
    await button("Start: slow").click();
    const start = page.getByRole("region", { name: "Start of slow" });
    const weights = start.getByRole("listitem").filter({ hasText: "Weights" });
    await until("the weights", async () => (await weights.getAttribute("aria-current")) === "step");
    await start.getByRole("log").getByText("loading model").waitFor();
    await start.getByText("no earlier start to compare with").waitFor();
    await look(page, "models-start");
    // Its log is followed until the page hears of it.
    page.allow(/^404 GET \/admin\/models\/\d+\/logs$/);
    await api("DELETE", `/admin/models/${slow.id}`);
    await goneRow(/slow/);
  });

  await step("a value that the diagnosis knows is used from the row, and the model runs with it", async () => {
    const greedy = await api("POST", "/admin/models", { ...record, served_name: "greedy", extra_args: ["--sim-oom-above-context", "4096"] });
    await button("Start: greedy").click();
    await page.getByText("GPU out of memory").first().waitFor();
    await button("Set context_size to 4096 and start").click();
    await page.getByText("greedy is changed and starting.").waitFor();
    await button("Stop: greedy").waitFor();
    await row(/greedy/).getByText("Running", { exact: true }).first().waitFor();
    assert.equal((await api("GET", `/admin/models/${greedy.id}`)).context_size, 4096);
    await api("DELETE", `/admin/models/${greedy.id}`);
    await goneRow(/greedy/);
  });

  await step("the log is searched by keyboard", async () => {
    await open(`/models/${first}?tab=logs`, FIRST);
    await page.getByRole("log").getByText("listening on").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("model");
    const place = page.getByText(/^\d+ of \d+$/);
    await place.waitFor();
    const before = await place.textContent();
    await page.keyboard.press("Enter");
    await until("the next place", async () => (await place.textContent()) !== before);
    await look(page, "model-logs");
  });

  await step("a test request shows what was sent, what came back and how long it took", async () => {
    await tab("Test");
    await button("Send a test request").click();
    await page.getByText("The engine answered").waitFor();
    await page.getByText('"finish_reason"').waitFor();
    await look(page, "model-test");
  });

  await step("metrics and the timeline are there", async () => {
    await tab("Metrics");
    await page.getByText("Time to first token").first().waitFor();
    await look(page, "model-metrics");
    await tab("Timeline");
    await page.getByRole("row", { name: /Running/ }).first().waitFor();
    await look(page, "model-timeline");
  });

  await step("when somebody else changes the record meanwhile, both values are shown", async () => {
    await tab("Configuration");
    await page.getByRole("textbox", { name: /context_size/ }).fill("2048");
    await api("PATCH", `/admin/models/${first}`, { context_size: 1024, seed: 7 });
    await page.getByText("Somebody changed this model meanwhile").waitFor();
    assert.equal(await page.getByRole("textbox", { name: /context_size/ }).inputValue(), "2048");
    await look(page, "model-configuration");
  });

  await step("an engine elsewhere is added, shown with its health, and removed", async () => {
    await open("/models", "Models");
    await button("Add an engine elsewhere").click();
    await dialog.getByLabel("Served name").fill("cloud/large");
    await dialog.getByLabel("Addresses").fill("not a url");
    page.allow(/^4\d\d POST \/admin\/models\/registry$/);
    await button("Add", dialog).click();
    await dialog.getByRole("alert").first().waitFor();
    page.forbid();
    await look(page, "registry-form");
    await dialog.getByLabel("Addresses").fill("http://127.0.0.1:9");
    await button("Add", dialog).click();
    await row(/cloud\/large/).getByText("Unhealthy").waitFor();
    await button("Details of cloud/large").click();
    await page.getByText("http://127.0.0.1:9").first().waitFor();
    await look(page, "models");
    await button("Remove: cloud/large").click();
    await button("Remove", dialog).waitFor();
    await look(page, "registry-remove");
    await button("Remove", dialog).click();
    await goneRow(/cloud\/large/);
  });

  await step("several models are stopped at once, by keyboard only", async () => {
    await page.getByRole("checkbox", { name: "Select all that are shown" }).focus();
    await page.keyboard.press("Space");
    await button("Stop", page.getByRole("group", { name: "2 models selected" })).focus();
    await page.keyboard.press("Enter");
    await button("Stop", dialog).waitFor();
    await look(page, "models-stop");
    await button("Stop", dialog).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^Stopped 2$/ }).waitFor();
  });

  await step("a model is deleted only after its name was typed", async () => {
    await main.getByRole("link", { name: "mended", exact: true }).click();
    await heading(page, "mended").waitFor();
    await button("More").click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    const remove = button("Delete", dialog);
    assert.ok(await remove.isDisabled());
    await look(page, "model-delete");
    await page.getByLabel("Type mended to confirm").fill("mended");
    await remove.click();
    await heading(page, "Models").waitFor();
    await goneRow(/mended/);
  });

  await step("a model's pages are there in German, and none is wider than a phone", async () => {
    const phone = await gateway.page({ as: "ada", width: 390, locale: "de-DE" });
    for (const [path, title] of [
      ["/models", "Modelle"], ["/models/new?pick=llamas", "Modell hinzufügen"], [`/models/${first}`, FIRST],
      ...["configuration", "logs", "metrics", "test", "timeline"].map((it) => [`/models/${first}?tab=${it}`, FIRST]),
    ]) {
      await phone.goto(`${gateway.ui}${path}`);
      await heading(phone, title).waitFor();
      await until("all answers", () => phone.pending() === 0);
      const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} is ${wide} px too wide`);
      // It does not run any more; its log is kept.
      if (path.endsWith("logs")) await phone.getByText("Die Engine dieses Laufs wurde entfernt").waitFor();
    }
    await phone.close();
  });
}
