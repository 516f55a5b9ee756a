// Some life for a gateway, so that its pages have something to show: models in three states, an engine elsewhere, people, keys,
// requests, a chat and a package.
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { PASSWORD, until } from "./harness.mjs";

const FIXTURES = join(import.meta.dirname, "../../crates/server/tests/fixtures/gguf");

/** Fills a gateway of the harness. Returns the models and the chat that it made. */
export async function fill(gateway) {
  const api = await gateway.as();
  for (const name of ["tiny-llama", "tiny-other"]) writeGguf(join(gateway.models, `${name}.gguf`), { name });
  // A model with a LoRA adapter beside it, in a folder.
  mkdirSync(join(gateway.models, "support"));
  writeGguf(join(gateway.models, "support/support-q8_0.gguf"), { name: "support" });
  writeGguf(join(gateway.models, "support/polite-lora.gguf"), { name: "polite", type: "adapter" });
  const model = (served_name, more = {}) =>
    api("POST", "/admin/models", { served_name, engine_type: "llamacpp", local_path: "tiny-llama.gguf", force: true, ...more });
  const running = await model("tiny-llama");
  const failed = await model("will-not-start", { extra_args: ["--no-such-argument"] });
  const adapted = await model("support", {
    local_path: "support/support-q8_0.gguf",
    lora_adapters: ["polite=support/polite-lora.gguf"],
  });
  await model("a-model-that-rests-with-a-name-that-is-longer-than-any-column-of-a-table-can-be");
  for (const it of [running, failed]) await api("POST", `/admin/models/${it.id}/start`, {});
  const state = async (it) => (await api("GET", `/admin/models/${it.id}`)).state;
  await until("the start", async () => (await state(running)) === "running");
  await until("the failure", async () => (await state(failed)) === "failed");
  await api("POST", "/admin/models/registry", { served_name: "elsewhere/large", url: "http://127.0.0.1:9" });
  const org = await api("POST", "/admin/orgs", { name: "Acme", budget_tokens_month: 1_000_000 });
  for (const role of ["user", "org_admin", "admin"])
    await api("POST", "/admin/users", { username: `the-${role}`, password: PASSWORD, role, org_id: org.id });
  const made = await api("POST", "/admin/keys", { org_id: org.id, name: "laptop", rpm_limit: 600, budget_tokens_day: 100_000 });
  const token = made.token ?? made.key;
  const ask = (body, to = "chat/completions") =>
    fetch(`${gateway.url}/v1/${to}`, {
      method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: JSON.stringify(body),
    }).then((answer) => answer.text());
  for (let at = 0; at < 12; at += 1)
    await ask({ model: at % 6 === 5 ? "no-such-model" : "tiny-llama", stream: at % 2 === 0, max_tokens: 16, messages: [{ role: "user", content: `Question ${at}` }] });
  const chat = await api("POST", "/v1/chat/sessions", { model_name: "tiny-llama", engine_type: "llamacpp" });
  await api("POST", `/v1/chat/sessions/${chat.id}/messages`, { role: "user", content: "How does a gantry crane work?" });
  await api("POST", `/v1/chat/sessions/${chat.id}/messages`, {
    role: "assistant",
    content: "A **gantry crane** stands on legs and spans its load:\n\n1. The *trolley* runs along the beam.\n2. The hoist lifts.\n\n```python\nload = beam.capacity - hoist.weight\n```\n\n| Part | Mass |\n|---|---:|\n| Beam | 12 t |\n",
  });
  await api("POST", "/admin/deployment/export", { output_dir: "first" });
  await until("the export", async () => (await api("GET", "/admin/deployment/jobs"))[0]?.state !== "running");
  return { api, running, failed, adapted, chat, token };
}

/** Ends the engine of a model at once, as the kernel does when memory runs out. Returns when, in milliseconds since 1970. */
export function killEngine(gateway, id) {
  const run = join(gateway.dir, "data/run");
  const folder = readdirSync(run).find((it) => it.endsWith(`-${id}`));
  const { engine_pid } = JSON.parse(readFileSync(join(run, folder, "state.json"), "utf8"));
  process.kill(engine_pid, "SIGKILL");
  return Date.now();
}

/** Adds models that are on their way: `slow` loads, `back` was rolled back, and the files of `other` are for another task. */
export async function setOut(gateway) {
  const api = await gateway.as();
  copyFileSync(join(FIXTURES, "tiny-bert-embed-F16.gguf"), join(gateway.models, "embedder.gguf"));
  const model = (served_name, more) =>
    api("POST", "/admin/models", { served_name, engine_type: "llamacpp", local_path: "tiny-llama.gguf", force: true, ...more });
  const slow = await model("slow", { extra_args: ["--sim-load-seconds", "3600"] });
  const back = await model("mended", { context_size: 2048, extra_args: ["--sim-oom-above-context", "4096"] });
  const other = await model("embedder", { local_path: "embedder.gguf", task: "generate" });
  for (const it of [slow, back]) await api("POST", `/admin/models/${it.id}/start`, {});
  const now = (it) => api("GET", `/admin/models/${it.id}`);
  await until("the start", async () => (await now(back)).state === "running");
  await api("PATCH", `/admin/models/${back.id}`, { context_size: 8192 });
  await api("POST", `/admin/models/${back.id}/apply?rollback=true`);
  await until("the way back", async () => (await now(back)).rolled_back && (await now(back)).state === "running");
  await until("the weights", async () => (await now(slow)).state === "loading");
  return { slow, back, other };
}

/** Fills a gateway with thousands of rows: keys, users, models and requests. */
export async function crowd(gateway) {
  const api = await gateway.as();
  writeGguf(join(gateway.models, "tiny-llama.gguf"));
  const { id: org_id } = await api("POST", "/admin/orgs", { name: "Acme" });
  const key = await api("POST", "/admin/keys", { org_id, name: "load" });
  const ask = (model) =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST", headers: { authorization: `Bearer ${key.token ?? key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
    }).then((answer) => answer.text());
  const each = async (count, one) => {
    for (let at = 0; at < count; at += 10) await Promise.all(Array.from({ length: 10 }, (_, it) => one(at + it)));
  };
  await each(3000, (at) => ask(`no-model-${at % 40}`));
  await each(2000, (at) => api("POST", "/admin/keys", { org_id, name: `key ${at} of somebody` }));
  await each(300, (at) =>
    api("POST", "/admin/models", { served_name: `team-${at % 12}/model-${at}`, engine_type: "llamacpp", local_path: "tiny-llama.gguf", force: true }));
  await each(150, (at) => api("POST", "/admin/orgs", { name: `Department ${at}` }));
}
