// What owners of GPUs come for: whether a model fits, who holds the rest, what a start that does not fit would do, and the same
// memory on the overview, on the system page and on a model's own page.
import assert from "node:assert/strict";
import { GPU, startWithGpus } from "./gpus.mjs";
import { heading, look, step, until } from "./harness.mjs";

export default async function () {
  const { gateway, api, holder, hub } = await startWithGpus();
  const page = await gateway.page({ as: "ada" });
  const button = (name, on = page) => on.getByRole("button", { name, exact: true });
  const dialog = page.getByRole("dialog");
  const bar = (index, on = page) => on.getByRole("group", { name: `GPU ${index} · ${GPU.name}` });
  const context = page.getByRole("textbox", { name: /^Context\b(?!_)/ });
  const users = page.getByRole("textbox", { name: "Users at the same time" });
  const memory = page.locator("section").filter({ has: page.getByRole("heading", { name: "Memory", exact: true }) });
  const command = page.getByRole("region", { name: "Command", exact: true });
  /** What a part of a bar says, in MiB. */
  const held = async (index, part) => {
    const row = bar(index).getByRole("listitem").filter({ hasText: part });
    if ((await row.count()) === 0) return 0;
    const [, number, unit] = /([\d.,]+)\s*(MiB|GiB)$/.exec(await row.first().innerText());
    return Number(number.replaceAll(",", "")) * (unit === "GiB" ? 1024 : 1);
  };
  const open = async (path, title) => {
    await page.goto(`${gateway.ui}${path}`);
    await heading(page, title).waitFor();
  };

  await step("each file has a verdict for this machine", async () => {
    await open("/models/new", "Add a model");
    const folder = page.getByRole("list", { name: "In the models folder" }).getByRole("button", { name: /family/ });
    await folder.getByText(/^Does not fit: needs [\d.,]+\sGiB of RAM, [\d.,]+\sGiB available$/).waitFor();
    await folder.click();
    const files = page.getByRole("group", { name: "Files" });
    await files.getByRole("radio", { name: /chat-1b.*Fits with 8\sk context/ }).waitFor();
    await files.getByRole("radio", { name: /chat-huge.*Does not fit: needs [\d.,]+\sGiB of RAM/ }).waitFor();
    await look(page, "memory-files");
    await files.getByRole("radio", { name: /chat-1b/ }).check();
  });

  await step("the bars show each GPU, and who holds the rest by name", async () => {
    await page.getByText("Nothing speaks against a start.").waitFor();
    await bar(0).getByText("holder").waitFor();
    for (const index of [0, 1]) {
      for (const part of ["Weights", "KV cache", "Overhead", "Other processes", "Free"])
        assert.ok((await held(index, part)) > 0, `${part} on GPU ${index}`);
      const sum = await Promise.all(["Weights", "KV cache", "Overhead", "holder", "Other processes", "Driver", "Free"].map((it) => held(index, it)));
      const all = sum.reduce((a, b) => a + b, 0);
      assert.ok(Math.abs(all - GPU.mem_total_mb) < 300, `GPU ${index}: ${sum} is ${all} MiB`);
    }
    assert.equal(await held(0, "holder"), 6144);
    assert.equal(await held(1, "holder"), 0);
  });

  await step("the bars move with context and users, by field and by slider", async () => {
    const before = await held(0, "KV cache");
    const free = await held(0, "Free");
    await context.fill("32768");
    await users.fill("4");
    await memory.getByText(/^Fits with 8\sk context × 4 users$/).waitFor();
    await until("four times the cache", async () => Math.abs((await held(0, "KV cache")) / before - 4) < 0.1);
    assert.ok((await held(0, "Free")) < free);
    await page.getByRole("slider", { name: "Context" }).focus();
    await page.keyboard.press("ArrowRight");
    await memory.getByText(/^Fits with 16\sk context × 4 users$/).waitFor();
    assert.equal(await context.inputValue(), "65536");
    await until("eight times the cache", async () => Math.abs((await held(0, "KV cache")) / before - 8) < 0.2);
    await look(page, "memory-bars");
  });

  await step("the command has what the gateway adds, marks what was changed, and is copied as it is", async () => {
    for (const word of ["--alias", "--host", "--port", "--metrics", "--no-webui"]) await command.getByText(word).first().waitFor();
    for (const it of [/^--alias chat-1b-f32 \\ from the gateway$/, /^--host .* from the gateway$/]) await command.getByText(it).waitFor();
    await page.getByText("LLAMA_API_KEY=***").waitFor();
    await command.getByRole("mark").filter({ hasText: "--ctx-size 65536" }).waitFor();
    await button("Copy the command").click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /llama-server .*--ctx-size 65536.*--parallel 4/);
    assert.equal(copied.split("\n").length, 1);
  });

  await step("all settings are shown in groups, and the simple view keeps what was changed", async () => {
    await page.getByRole("radio", { name: "All", exact: true }).check();
    await page.getByRole("group", { name: "Speculative decoding" }).waitFor();
    await page.getByRole("textbox", { name: /^ngl\b/ }).fill("24");
    await page.getByRole("radio", { name: "Simple", exact: true }).check();
    await page.getByRole("group", { name: "Speculative decoding" }).waitFor({ state: "detached" });
    await button("Reset ngl").waitFor();
    await button("Reset parallel_slots").waitFor();
  });

  await step("what does not fit says what is missing and who has it, before it is started anyway", async () => {
    await context.fill("1048576");
    await memory.getByText(/^Does not fit: needs [\d.]+\sGiB, [\d.]+\sGiB free; would fit with [\d,]+ tokens$/).waitFor();
    await page.getByText("1 reason against a start").waitFor();
    await look(page, "memory-too-large");
    await button("Save and start anyway").click();
    await dialog.getByText("It does not fit").waitFor();
    const happens = dialog.getByRole("list", { name: "What would happen" });
    await happens.getByText(/^On GPU 0 · NVIDIA L4 the engine asks for [\d.]+\sGiB, and 15\.6\sGiB are free: it gets an error while it loads/).waitFor();
    await happens.getByText(/Who holds the rest goes on: holder \([^)]+\) and Other processes \([^)]+\)/).waitFor();
    await happens.getByText(/^The model is then “failed”/).waitFor();
    await look(page, "memory-start-anyway");
    await button("Cancel", dialog).click();
    await dialog.waitFor({ state: "detached" });
  });

  await step("the warning has a button that sets what fits", async () => {
    const warnings = page.getByRole("list", { name: "Checks" });
    const fix = warnings.getByRole("listitem").filter({ hasText: "It does not fit" }).getByRole("button", { name: /^Set context_size = \d+$/ });
    const [value] = /\d+$/.exec(await fix.innerText());
    await fix.click();
    await memory.getByText(/^Fits with/).waitFor();
    assert.equal(await context.inputValue(), value);
    await page.getByText("Nothing speaks against a start.").waitFor();
  });

  await step("started anyway, it fails as it was said, and the row has the value that helps", async () => {
    await context.fill("1048576");
    await button("Save and start anyway").click();
    await button("Save and start anyway", dialog).click();
    await page.getByText("GPU out of memory").first().waitFor();
    await page.getByRole("button", { name: "Set context_size to 524288 and start" }).waitFor();
    await until("the rest goes on", async () => (await api("GET", `/admin/models/${holder.id}`)).state === "running");
  });

  await step("a repository of the hub is asked for by its name, and becomes a model that fetches it", async () => {
    await open("/models/new", "Add a model");
    await page.getByRole("textbox", { name: "Where is the model?" }).fill(hub.repository);
    await button(`Ask the hub for ${hub.repository}`).click();
    await page.getByText("Qwen2ForCausalLM").first().waitFor();
    await command.getByText(hub.repository).first().waitFor();
    await look(page, "memory-hub");
    await button("Save").click();
    await heading(page, "chat-7b").waitFor();
    const model = (await api("GET", "/admin/models")).find((it) => it.served_name === "chat-7b");
    assert.deepEqual([model.repo_id, model.engine_type], [hub.repository, "vllm"]);
  });

  await step("the overview and the system page split each GPU by model", async () => {
    for (const [path, title] of [["/", "Overview"], ["/system", "System"]]) {
      await open(path, title);
      await bar(0).getByText("holder").waitFor();
      assert.equal(await held(0, "holder"), 6144);
      assert.equal(await held(0, "Other processes"), 1536);
      assert.equal(await held(1, "holder"), 0);
      await look(page, `memory-gpus-${title.toLowerCase()}`);
    }
    await button("2 processes").click();
    const processes = page.getByRole("table", { name: `GPU 0 · ${GPU.name}` });
    await processes.getByRole("link", { name: "holder" }).click();
    await heading(page, "holder").waitFor();
  });

  await step("a model that runs fits: what it holds is its own", async () => {
    await memory.getByText(/^Fits with 2\sk context/).waitFor();
    await bar(0).getByText("Weights").waitFor();
    assert.equal(await held(0, "holder"), 0);
    await look(page, "memory-own");
  });

  await step("there is one number for the context, which is not longer than what the model was trained for", async () => {
    await open("/models/new?pick=small.gguf", "Add a model");
    await memory.getByText(/^Fits with 2\sk context/).waitFor();
    await memory.getByText(/^Context of a request: 2,048 tokens \(trained for 2,048, .*8,192 chosen/).waitFor();
    await page.getByRole("textbox", { name: /^context_size/ }).waitFor();
    assert.equal(await button("Use 32,768").count(), 0);
    await open("/models/new?pick=family", "Add a model");
    await page.getByRole("group", { name: "Files" }).getByRole("radio", { name: /chat-1b/ }).check();
    await button("Use 32,768").waitFor();
  });
}
