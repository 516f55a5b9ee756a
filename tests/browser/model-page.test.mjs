// The page of one model: settings that did not get ready and came back, adapters, copies, the archive, what clients need, and the
// ways through a log.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { writeGguf } from "./gguf.mjs";
import { heading, look, rail, startGateway, step, until } from "./harness.mjs";

const run = promisify(execFile);

export default async function () {
  const gateway = await startGateway();
  mkdirSync(join(gateway.models, "support"));
  writeGguf(join(gateway.models, "support/support-q8_0.gguf"), { name: "support", context: 8192 });
  writeGguf(join(gateway.models, "support/polite-lora.gguf"), { name: "polite", type: "adapter" });
  const api = await gateway.as();
  const key = await api("POST", "/admin/keys", { org_id: (await api("GET", "/admin/orgs"))[0].id, name: "shell" });
  const made = (served_name, more = {}) =>
    api("POST", "/admin/models", { served_name, engine_type: "llamacpp", local_path: "support/support-q8_0.gguf", ...more });
  const page = await gateway.page({ as: "ada" });
  const main = page.getByRole("main");
  const dialog = page.getByRole("dialog");
  const log = page.getByRole("log", { name: "Log of the engine" });
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const tab = async (name) => page.getByRole("tab", { name, exact: true }).click();
  const runs = () => main.getByText("Running", { exact: true }).first().waitFor();
  const open = async (path, title) => {
    await page.goto(`${gateway.ui}${path}`);
    await heading(page, title).waitFor();
  };
  const more = async (item) => {
    await button("More").click();
    await page.getByRole("menuitem", { name: item, exact: true }).click();
  };
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  const greedy = await made("greedy", { context_size: 2048, extra_args: ["--sim-oom-above-context", "4096"] });

  await step("settings that do not get ready are rolled back, and the page says which and why", async () => {
    await api("POST", `/admin/models/${greedy.id}/start`, {});
    await open(`/models/${greedy.id}?tab=configuration`, "greedy");
    await runs();
    const context = page.getByRole("textbox", { name: /context_size/ });
    await context.fill("8192");
    await button("Save and apply").click();
    assert.ok(await dialog.getByRole("checkbox", { name: "Roll back if it does not get ready" }).isChecked());
    await button("Apply", dialog).click();
    await page.getByText("The settings were rolled back").waitFor();
    await main.getByText("context_size=8192").waitFor();
    await runs();
    await until("the old value", async () => (await context.inputValue()) === "2048");
    await look(page, "model-rolled-back");
    await tab("Timeline");
    await page.getByRole("row", { name: /Failed/ }).first().waitFor();
    await rail(page).getByRole("link", { name: "Models", exact: true }).click();
    await page.getByRole("row", { name: /greedy/ }).getByText("Rolled back").waitFor();
  });

  await step("a LoRA adapter beside the file is used by one click, and has its tab", async () => {
    await open("/models/new?pick=support", "Add a model");
    await page.getByRole("group", { name: "LoRA adapters" }).getByRole("checkbox", { name: /polite-lora/ }).check();
    await page.getByRole("region", { name: "Command", exact: true }).getByText(/--lora .*polite-lora\.gguf/).waitFor();
    await page.getByRole("textbox", { name: "Served name" }).fill("polite-support");
    await page.getByText("Nothing speaks against a start.").waitFor();
    await button("Save and start").click();
    await heading(page, "polite-support").waitFor();
    await runs();
    await tab("LoRA");
    await page.getByText("llama.cpp applies all of them at once, to every request.").waitFor();
    await page.getByRole("row", { name: "polite-lora support/polite-lora.gguf" }).waitFor();
    await look(page, "model-lora");
  });

  await step("clients are connected with what the page copies", async () => {
    await tab("Overview");
    await button("Copy: Base URL").click();
    assert.equal(await copied(), `${gateway.url}/v1`);
    await button("Copy: Model").click();
    assert.equal(await copied(), "polite-support");
    const clients = page.getByRole("group", { name: "Client" });
    for (const name of ["Python", "JavaScript", "Open WebUI", "Claude Code", "Continue", "aider", "curl"]) {
      await clients.getByRole("radio", { name, exact: true }).check();
      await button(`Copy: ${name}`).click();
      const text = await until(name, copied);
      assert.ok(text.includes(gateway.url) && (name === "Open WebUI" || text.includes("polite-support")), text);
    }
    // The command as it was copied, in a shell that has the key.
    const env = { ...process.env, GANTRY_API_KEY: key.token ?? key.key };
    const { stdout } = await run("bash", ["-c", await copied()], { env });
    assert.ok(JSON.parse(stdout).choices[0].message.content.length > 0, stdout);
  });

  await step("a copy of a model begins with its settings", async () => {
    await more("Duplicate");
    await heading(page, "Add a model").waitFor();
    await page.getByText("A copy of polite-support").waitFor();
    const name = page.getByRole("textbox", { name: "Served name" });
    assert.equal(await name.inputValue(), "polite-support-copy");
    await page.getByText("Nothing speaks against a start.").waitFor();
    await look(page, "model-duplicate");
    await button("Save").click();
    await heading(page, "polite-support-copy").waitFor();
    const models = await api("GET", "/admin/models");
    const [one, other] = ["polite-support", "polite-support-copy"].map((it) => models.find((model) => model.served_name === it));
    for (const field of ["local_path", "lora_adapters", "engine_type", "task", "context_size"]) assert.deepEqual(other[field], one[field], field);
  });

  await step("an archived model is out of the way, can't be started, and comes back", async () => {
    await more("Archive");
    await look(page, "model-archive");
    await button("Archive", dialog).click();
    await page.getByText("This model is archived. Unarchive it to start it.").waitFor();
    assert.equal(await button("Start").count(), 0);
    await rail(page).getByRole("link", { name: "Models", exact: true }).click();
    const link = main.getByRole("link", { name: "polite-support-copy", exact: true });
    await main.getByRole("link", { name: "polite-support", exact: true }).waitFor();
    assert.equal(await link.count(), 0);
    await page.getByRole("checkbox", { name: "Show archived" }).check();
    await link.click();
    await heading(page, "polite-support-copy").waitFor();
    await more("Unarchive");
    await button("Unarchive", dialog).click();
    await button("Start").waitFor();
  });

  await step("a diagnosis leads to its lines in the log, also where a filter hides them", async () => {
    await api("PATCH", `/admin/models/${greedy.id}`, { context_size: 8192 });
    await api("POST", `/admin/models/${greedy.id}/apply?rollback=false`);
    await until("the failure", async () => (await api("GET", `/admin/models/${greedy.id}`)).state === "failed");
    await open(`/models/${greedy.id}?tab=logs`, "greedy");
    const evidence = page.getByRole("list", { name: "From the log" }).getByRole("button").first();
    const quote = (await evidence.innerText()).trim();
    await evidence.click();
    const current = log.locator("[aria-current=true]");
    await current.waitFor();
    assert.ok((await current.innerText()).includes(quote));
    await look(page, "model-diagnosis");
    await page.getByRole("button", { name: /^Other/ }).click();
    await page.waitForURL(/level=info/);
    await current.waitFor({ state: "detached" });
    await evidence.click();
    await current.waitFor();
    assert.ok((await current.innerText()).includes(quote));
    assert.doesNotMatch(page.url(), /level=/);
  });

  await step("a log is filtered by level, and what is shown is downloaded and copied", async () => {
    const errors = page.getByRole("group", { name: "Filter by level" }).getByRole("button", { name: /^Errors/ });
    const [count] = /\d+/.exec(await errors.innerText());
    await errors.click();
    await page.getByText(`${count} lines`, { exact: true }).waitFor();
    const download = page.waitForEvent("download");
    await button("Download").click();
    const file = await download;
    assert.equal(file.suggestedFilename(), "greedy.log");
    const text = readFileSync(await file.path(), "utf8");
    const lines = text.trimEnd().split("\n");
    assert.equal(lines.length, Number(count));
    assert.ok(lines.every((it) => / E /.test(` ${it}`)), text);
    await button("Copy what is shown").click();
    assert.equal(await until("the text", copied), text);
  });

  await step("the overview leads from a failure to its cause, and from a failed request to the request", async () => {
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST", headers: { authorization: `Bearer ${key.token ?? key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "greedy", messages: [{ role: "user", content: "Hello" }] }),
    }).then((answer) => answer.text());
    await open("/", "Overview");
    const of = (text) => main.getByRole("listitem").filter({ hasText: text });
    await of("greedy failed").getByText("GPU out of memory").waitFor();
    await of("greedy failed").getByRole("link", { name: "Logs" }).click();
    await heading(page, "greedy").waitFor();
    await log.locator("[aria-current=true]").waitFor();
    await page.goBack();
    await of("503 from greedy").getByRole("link", { name: "Requests" }).click();
    // The drawer of the request hides the page behind it from readers.
    await page.waitForURL(/\/usage\?.*request=/);
    await dialog.getByText("503", { exact: false }).first().waitFor();
    await dialog.getByText("shell").first().waitFor();
  });
}
