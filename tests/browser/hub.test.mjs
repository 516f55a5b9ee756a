// A model of the hub: its repository is written into the form, its files are listed with their sizes, one is chosen, and the form
// says what a start would do before anything is downloaded.
import assert from "node:assert/strict";
import { heading, look, startGateway, step, until } from "./harness.mjs";
import { startHub } from "./hub.mjs";

const GIB = 1024 ** 3;
const CONFIG = {
  architectures: ["LlamaForCausalLM"], model_type: "llama", max_position_embeddings: 8192, num_hidden_layers: 16,
  hidden_size: 2048, num_attention_heads: 32, vocab_size: 32_000,
};

export default async function () {
  const hub = await startHub({
    "crane/gantry-7b-GGUF": {
      files: {
        "README.md": 1000,
        "gantry-7b-Q4_K_M.gguf": 4 * GIB,
        "BF16/gantry-7b-BF16-00001-of-00002.gguf": 9 * GIB,
        "BF16/gantry-7b-BF16-00002-of-00002.gguf": 5 * GIB,
        "gantry-7b-Q8_0.gguf": undefined,
        "old/gantry-7b-Q8_0.gguf": 7 * GIB,
        "mmproj-gantry-7b-F16.gguf": GIB,
      },
    },
    "crane/gantry-7b": { config: CONFIG, files: { "config.json": 500, "model-00001-of-00002.safetensors": 8 * GIB, "model-00002-of-00002.safetensors": 6 * GIB } },
  });
  const gateway = await startGateway({ settings: { HUB_ENDPOINT: hub.url, OFFLINE_MODE: "false" } });
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada" });
  const source = () => page.getByLabel("Where is the model?");
  const button = (name) => page.getByRole("button", { name, exact: true });
  const command = () => page.getByRole("region", { name: "Command" });
  const open = async (text) => {
    await page.goto(`${gateway.ui}/models/new`);
    await source().fill(text);
    await source().press("Enter");
  };

  await step("owner/name: the hub is asked once it is confirmed, and its files are there with sizes", async () => {
    await page.goto(`${gateway.ui}/models/new`);
    await source().fill("crane/gantry-7b-GGUF");
    await button("Ask the hub for crane/gantry-7b-GGUF").waitFor();
    assert.deepEqual(hub.asked, [], "typing alone asks nobody");
    await source().press("Enter");
    const files = page.getByRole("group", { name: "Files" });
    const row = (name) => files.locator("label").filter({ hasText: name });
    await row("Q4_K_M").getByText("4 GiB").waitFor();
    await row("BF16").getByText("14 GiB").waitFor();
    await row("BF16").getByText("2 files").waitFor();
    // What can't be known is said to be unknown.
    await row("Q4_K_M").getByText("Unknown").waitFor();
    await row("gantry-7b-Q8_0").first().getByText("size unknown").waitFor();
    for (const at of [0, 1]) {
      await row("gantry-7b-Q8_0").nth(at).getByText("Another file has the same quantization").waitFor();
      assert.ok(await row("gantry-7b-Q8_0").nth(at).getByRole("radio").isDisabled());
    }
    assert.equal(await row("mmproj").count(), 0, "a projector is no model");
    await look(page, "deploy-hub");
  });

  await step("the file that is chosen is the one that a start would take, and a reload keeps it", async () => {
    await page.getByRole("radio", { name: /Q4_K_M/ }).check();
    await command().getByText("crane/gantry-7b-GGUF:Q4_K_M").first().waitFor();
    await page.reload();
    await until("the file that was chosen", () => page.getByRole("radio", { name: /Q4_K_M/ }).isChecked());
    await page.getByText("The memory need is not known.").first().waitFor();
    await page.getByText("Nothing speaks against a start.").waitFor();
    await button("Save").click();
    await heading(page, "gantry-7b-GGUF:Q4_K_M").or(heading(page, "gantry-7b-GGUF")).first().waitFor();
    const [model] = await api("GET", "/admin/models");
    assert.deepEqual([model.engine_type, model.repo_id], ["llamacpp", "crane/gantry-7b-GGUF:Q4_K_M"]);
  });

  await step("the address of a repository's page is as good as its name; a checkpoint is one choice", async () => {
    await open("https://huggingface.co/crane/gantry-7b/tree/main");
    await page.getByText("LlamaForCausalLM").first().waitFor();
    const checkpoint = page.getByRole("radio", { name: /The checkpoint/ });
    await until("the checkpoint is chosen", () => checkpoint.isChecked());
    await page.getByRole("group", { name: "Files" }).getByText("14 GiB").waitFor();
    await command().getByText("crane/gantry-7b").first().waitFor();
    await look(page, "deploy-hub-checkpoint");
  });

  await step("a repository that is not there is told, and the record can be made all the same", async () => {
    page.allow(/^404 GET \/admin\/models\/hub-config$/);
    await open("crane/no-such-thing");
    await page.getByText(/The model hub has no repository crane\/no-such-thing/).waitFor();
    assert.equal(await page.getByText("the hub does not answer").count(), 0, "it did answer");
    await command().getByText("crane/no-such-thing").first().waitFor();
    page.forbid();
  });
}
