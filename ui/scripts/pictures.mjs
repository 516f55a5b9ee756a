// The pictures of docs/web-ui.md: node scripts/pictures.mjs → docs/pictures/*.png. It starts its own gateways with simulated
// engines (GANTRY, or the program that `cargo build` makes). USAGE_FILL is the example `usage_fill` of the store, which makes the
// usage of a month; UI_DIST as in tests/browser/harness.mjs. What is committed is reduced to 256 colours.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("../../", import.meta.url).pathname;
const out = join(root, "docs/pictures");
process.env.GANTRY ??= join(root, "target/debug/gantry");
const { closeBrowser, endAll, startGateway, until } = await import("../../tests/browser/harness.mjs");
const { writeGguf } = await import("../../tests/browser/gguf.mjs");
const { pretendServer } = await import("../../tests/browser/gpus.mjs");

mkdirSync(out, { recursive: true });
const dir = mkdtempSync(join(tmpdir(), "gantry-pictures-"));
const inventory = join(dir, "gpus.json");
writeFileSync(
  inventory,
  JSON.stringify([
    {
      index: 0,
      name: "NVIDIA L4",
      vendor: "nvidia",
      mem_total_mb: 23_034,
      mem_used_mb: 6_420,
      compute_capability: "8.9",
      util_pct: 41,
      temperature_c: 56,
      power_w: 47,
      processes: [{ pid: 4_000_000, mem_mb: 6_100 }],
    },
  ]),
);
/** The users of the generated usage have the names that tests use. */
const WHO = "operator";
const settings = { GPU_INVENTORY_FILE: inventory, ADMIN_BOOTSTRAP_USERNAME: WHO };
if (process.env.USAGE_FILL) {
  settings.DATABASE_URL = `sqlite://${join(dir, "gantry.db")}`;
  execFileSync(process.env.USAGE_FILL, [settings.DATABASE_URL, "60000", "30", "3", "20"], {
    stdio: "inherit",
  });
}

/** Takes one picture of what is in sight. */
async function picture(page, name) {
  await page.waitForTimeout(600);
  await until("quiet", async () => page.pending() === 0);
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(out, `${name}.png`) });
  console.log(name);
}

try {
  const gateway = await startGateway({ engine: "--sim-tokens-per-sec 70", settings });
  const api = await gateway.as(WHO);
  for (const name of ["qwen3-8b-q4_k_m", "bge-m3-q8_0"])
    writeGguf(join(gateway.models, `${name}.gguf`), { name });
  const model = (served_name, more = {}) =>
    api("POST", "/admin/models", {
      served_name,
      engine_type: "llamacpp",
      local_path: "qwen3-8b-q4_k_m.gguf",
      force: true,
      ...more,
    });
  const made = [await model("qwen3-8b"), await model("qwen3-8b-long", { context_size: 32_768 })];
  made.push(await model("bge-m3", { task: "embed", local_path: "bge-m3-q8_0.gguf" }));
  const greedy = await model("llama-70b", { extra_args: ["--sim-crash-at-start", "--sim-crash-log", "oom"] });
  for (const it of [...made, greedy]) await api("POST", `/admin/models/${it.id}/start`, {});
  const state = async (it) => (await api("GET", `/admin/models/${it.id}`)).state;
  for (const it of made) await until("the start", async () => (await state(it)) === "running", 60_000);
  await until("the failure", async () => (await state(greedy)) === "failed", 60_000);
  const key = await api("POST", "/admin/keys/own", { name: "laptop" }).catch(() =>
    api("POST", "/admin/keys", { name: "laptop" }),
  );
  const token = key.token ?? key.key;
  const ask = (max_tokens, model = "qwen3-8b") =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({
        model,
        stream: true,
        max_tokens,
        messages: [{ role: "user", content: "How does a crane work?" }],
      }),
    }).then((answer) => answer.text());
  let busy = true;
  const load = Promise.all(
    [300, 500, 900].map(async (pause, at) => {
      while (busy) {
        await ask(40 + 60 * Math.random(), at === 2 ? "qwen3-8b-long" : "qwen3-8b");
        await new Promise((done) => setTimeout(done, pause * Math.random() * 4));
      }
    }),
  );

  const page = await gateway.page({ as: WHO });
  await page.goto(`${gateway.ui}/`);
  await page.waitForTimeout(60_000);
  await picture(page, "overview");

  await page.goto(`${gateway.ui}/models`);
  await page.getByText("llama-70b").first().waitFor();
  await page
    .getByRole("button", { name: /and start$/ })
    .first()
    .waitFor();
  await picture(page, "failure");

  await page.goto(`${gateway.ui}/usage?range=7d`);
  await page
    .getByRole("button", { name: /^Open the request/ })
    .first()
    .waitFor();
  await picture(page, "usage");

  await page.goto(`${gateway.ui}/playground`);
  await page.getByRole("button", { name: "Parameters" }).click();
  await page.getByRole("textbox", { name: "Longest answer" }).fill("120");
  await page
    .getByRole("textbox", { name: "Question", exact: true })
    .fill("What does a gantry crane do? Answer with a list and an example.");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText(/TTFT/).waitFor();
  await picture(page, "playground");

  await page.goto(`${gateway.ui}/keys?dialog=create`);
  await page.getByLabel("Name", { exact: true }).fill("editor");
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
  await page.getByRole("dialog", { name: "The key is created" }).waitFor();
  await picture(page, "key");
  busy = false;
  await load;

  // The estimate is for engines that load something, and the simulator does not.
  const real = await startGateway({
    settings: { GPU_INVENTORY_FILE: inventory, SECONDARY_ENGINE_COMMAND: pretendServer(dir) },
  });
  writeGguf(join(real.models, "llama-1b-f32.gguf"), {
    name: "llama-1b",
    context: 131_072,
    layers: 16,
    width: 1024,
  });
  const form = await real.page({ as: "ada" });
  await form.goto(`${real.ui}/models/new?pick=llama-1b-f32.gguf`);
  await form.getByText("Nothing speaks against a start.").waitFor();
  await form.getByRole("textbox", { name: "Served name" }).fill("llama-1b");
  await form.getByRole("textbox", { name: "Context" }).first().fill("32768");
  await form.getByRole("textbox", { name: "Users at the same time" }).fill("4");
  await form.waitForTimeout(1500);
  await picture(form, "deploy");
} finally {
  await endAll();
  await closeBrowser();
  rmSync(dir, { recursive: true, force: true });
}
process.exit(0);
