// Drives the playground in Chromium by roles and labels only: node playground.mjs CHROMIUM, with the gateway's program in GANTRY.
// The pages come from UI, a `vite preview` or `vite dev` whose GANTRY_URL is http://127.0.0.1:$PORT, or from the gateway itself.
//   PORT   of the gateway (18441)
//   SHOTS  a folder for screenshots
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEngine } from "./engine.mjs";

const fromUi = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = fromUi("playwright-core");
const axe = readFileSync(fromUi.resolve("axe-core/axe.min.js"), "utf8");

const port = process.env.PORT ?? "18441";
const gatewayUrl = `http://127.0.0.1:${port}`;
const ui = process.env.UI ?? `${gatewayUrl}/ui`;
const shots = process.env.SHOTS;
if (shots) mkdirSync(shots, { recursive: true });
const dir = mkdtempSync(join(tmpdir(), "gantry-playground-"));
const env = {
  PATH: process.env.PATH, HOME: dir, DATA_DIR: join(dir, "data"), RUST_LOG: "error",
  GATEWAY_LISTEN: `127.0.0.1:${port}`, METRICS_LISTEN: "127.0.0.1:0", CONTAINER_RUNTIME: "process",
  ADMIN_BOOTSTRAP_USERNAME: "ada", ADMIN_BOOTSTRAP_PASSWORD: "correct horse",
};
const children = [];
const start = (args, options = {}) => {
  const child = spawn(process.env.GANTRY, args, { cwd: dir, env, stdio: "ignore", ...options });
  children.push(child);
  return child;
};
const until = async (what, check) => {
  for (let at = 0; at < 150; at += 1) {
    if (await check().catch(() => false)) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`${what} did not happen`);
};

start(["serve"]);
const vectors = Number(port) + 1;
start(["engine-sim", "--host", "127.0.0.1", "--port", String(vectors), "--model", "x", "--served-model-name", "vectors", "--runner", "pooling"]);
const engine = await startEngine();
await until("the start of the gateway", async () => (await fetch(`${gatewayUrl}/livez`)).ok);
await until("the start of the simulator", async () => (await fetch(`http://127.0.0.1:${vectors}/health`)).ok);
const credentials = JSON.stringify({ username: "ada", password: "correct horse" });
const json = { "content-type": "application/json" };
const signedIn = await fetch(`${gatewayUrl}/auth/login`, { method: "POST", headers: json, body: credentials });
const cookie = signedIn.headers.get("set-cookie").split(";")[0];
const LONG = "un-modèle-très-long-😀-with-a-name-that-does-not-fit-anywhere-at-all-in-390-pixels";
for (const entry of [
  { served_name: "mock", url: engine.url },
  { served_name: LONG, url: engine.url, upstream_model: "mock" },
  { served_name: "vectors", url: `http://127.0.0.1:${vectors}`, task: "embed" },
]) {
  const answer = await fetch(`${gatewayUrl}/admin/models/registry`, {
    method: "POST", headers: { ...json, cookie }, body: JSON.stringify(entry),
  });
  assert.equal(answer.status, 201, await answer.text());
}

const browser = await chromium.launch({
  executablePath: process.argv[2] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const complaints = [];
const asked = [];
const context = await browser.newContext({ locale: "en-GB", viewport: { width: 1440, height: 900 }, permissions: ["clipboard-read", "clipboard-write"] });
const page = await context.newPage();
page.setDefaultTimeout(10_000);
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("console", (message) => {
  if (message.type() === "error" && !/\b(400|401)\b/.test(message.text())) complaints.push(message.text());
});
page.on("request", (request) => asked.push(request.url()));

let passed = 0;
async function test(name, steps) {
  try {
    await steps();
  } catch (error) {
    if (shots) await page.screenshot({ path: join(shots, "failed.png") });
    console.log(`not ok ${name}`);
    throw error;
  }
  passed += 1;
  console.log(`ok ${name}`);
}

/** Checks with axe in both themes, and takes screenshots at two widths. */
async function look(name, on = page) {
  for (const theme of ["light", "dark"]) {
    await on.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    for (const width of [1440, 390]) {
      await on.setViewportSize({ width, height: 900 });
      await on.waitForTimeout(250);
      if (shots) await on.screenshot({ path: join(shots, `${name}-${width}-${theme}.png`) });
      await on.evaluate(axe);
      const { violations } = await on.evaluate(() =>
        window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }),
      );
      const told = violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
      assert.deepEqual(told, [], `${name} ${theme} ${width}`);
      const wide = await on.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name} at ${width} px is ${wide} px too wide`);
    }
  }
  await on.emulateMedia({ colorScheme: "light" });
  await on.setViewportSize({ width: 1440, height: 900 });
}

const question = () => page.getByRole("textbox", { name: "Question", exact: true });
const conversation = () => page.getByRole("log", { name: "Conversation" });
const ask = async (text) => {
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  await question().fill(text);
  await question().press("Enter");
};
const finished = (word = "finished") => conversation().getByText(word, { exact: true }).last().waitFor();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

try {
  await page.goto(`${ui}/login?to=/playground`);
  await page.evaluate((body) => fetch("/auth/login", { method: "POST", headers: { "content-type": "application/json" }, body }), credentials);

  await test("a new chat says what it is for", async () => {
    await page.goto(`${ui}/playground`);
    await page.getByText("Ask something.").waitFor();
    await page.getByText("Your chats will be here.").waitFor();
    await page.getByRole("combobox", { name: "Model" }).selectOption("mock");
    await look("new");
  });

  await test("a question gets an answer with markdown, figures and an address of its own; hostile text does nothing", async () => {
    await ask("code, if you can");
    await finished();
    assert.match(page.url(), /\/playground\/[0-9a-f-]{36}/);
    await conversation().getByText("fn main").waitFor();
    await conversation().getByText(/TTFT/).waitFor();
    await conversation().getByText(/tokens\/s/).waitFor();
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    assert.deepEqual(asked.filter((it) => it.includes("example.invalid")), [], "pictures of answers are never loaded");
    const links = await conversation().getByRole("link").evaluateAll((all) => all.map((it) => it.href));
    assert.ok(links.every((it) => it.startsWith("https://")), String(links));
    await page.getByRole("navigation", { name: "Chats" }).getByRole("link", { name: /code, if you can/ }).waitFor();
    await look("answer");
  });

  await test("reasoning is folded and says how long it took; tool calls are shown", async () => {
    await ask("think about it");
    const fold = conversation().getByText(/^Thought for/);
    await fold.waitFor();
    await conversation().getByText("The answer is 42.").waitFor();
    assert.equal(await conversation().getByText("First I consider.").isVisible(), false);
    await fold.click();
    await conversation().getByText("First I consider.").waitFor();
    await ask("use a tool");
    await conversation().getByRole("region", { name: "Calls weather" }).getByText('"Ulm"').waitFor();
    assert.ok(!JSON.stringify(engine.seen.last.messages).includes("First I consider"), "reasoning is not sent back");
  });

  await test("an engine that dies keeps what came, with the cause, the request id and a way on", async () => {
    await ask("die please");
    await conversation().getByText("The answer broke off.").waitFor();
    await conversation().getByText("A beginning").waitFor();
    await conversation().getByText("Request", { exact: false }).last().waitFor();
    await look("broken-off");
    await conversation().getByRole("button", { name: "Continue" }).click();
    await conversation().getByText("A beginning and its end.").waitFor();
    assert.equal(engine.seen.last.messages.at(-1).content, "A beginning");
  });

  await test("Stop ends an answer at the engine, too, and what came stays", async () => {
    const cut = engine.seen.cut;
    await ask("sleep a while");
    await conversation().getByText(/^0 1 2/).waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await conversation().getByText("stopped by you").waitFor();
    await until("the end at the engine", async () => engine.seen.cut > cut);
  });

  await test("a question can be edited, an answer written again, and every version is there", async () => {
    await page.getByRole("link", { name: "New chat" }).click();
    await ask("first words");
    await finished();
    await question().press("ArrowUp");
    const edit = page.getByRole("textbox", { name: "Edit the question" });
    await edit.fill("second words");
    await look("editing");
    await edit.press("Enter");
    await conversation().getByText("You said: second words").waitFor();
    await finished();
    await conversation().getByRole("button", { name: "Previous version" }).click();
    await conversation().getByText("You said: first words").waitFor();
    await conversation().getByRole("button", { name: "Answer again" }).click();
    await conversation().getByText("2 of 2").last().waitFor();
    await page.reload();
    await conversation().getByText("You said: first words").waitFor();
    await conversation().getByText("2 of 2").last().waitFor();
  });

  await test("parameters are sent, limited by the model, and what the engine refuses stands at its field", async () => {
    await page.getByRole("button", { name: "Parameters" }).click();
    await page.getByRole("textbox", { name: "System prompt" }).fill("Be brief.");
    await page.getByRole("textbox", { name: "Temperature" }).fill("0.3");
    await page.getByRole("textbox", { name: "Longest answer" }).fill("999999999");
    await page.getByText(/^At most 131,072/).waitFor();
    await page.getByRole("textbox", { name: "Longest answer" }).fill("100");
    await page.getByRole("textbox", { name: "Stop sequences" }).fill("END");
    await page.getByRole("checkbox", { name: /Answer in JSON/ }).check();
    await ask("parameters");
    await conversation().getByText("You said: parameters").waitFor();
    const { messages, temperature, max_tokens, stop, response_format } = engine.seen.last;
    assert.deepEqual([messages[0], temperature, max_tokens, stop, response_format],
      [{ role: "system", content: "Be brief." }, 0.3, 100, ["END"], { type: "json_object" }]);
    await finished();
    await ask("refuse this");
    await page.getByRole("alert").getByText(/temperature must be smaller/i).first().waitFor();
    await conversation().getByText("Request", { exact: false }).last().waitFor();
    await look("refused");
    await page.getByRole("button", { name: "Reset" }).click();
    await page.getByRole("button", { name: "Parameters" }).click();
  });

  await test("the conversation can be copied as programs and as markdown", async () => {
    await page.getByRole("button", { name: "Copy the conversation" }).click();
    const dialog = page.getByRole("dialog", { name: "Copy the conversation" });
    await dialog.getByText(/chat\/completions/).waitFor();
    for (const [name, words] of [["Python", "from openai import OpenAI"], ["JavaScript", 'import OpenAI from "openai"'], ["Markdown", "**You:**"]]) {
      await dialog.getByRole("radio", { name }).check();
      await dialog.getByText(words).first().waitFor();
    }
    await look("copy");
    await page.keyboard.press("Escape");
  });

  await test("pictures are sent with the question, and shown with it after a reload", async () => {
    await page.getByRole("link", { name: "New chat" }).click();
    const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
    const [chooser] = await Promise.all([
      page.waitForEvent("filechooser"),
      page.getByRole("button", { name: "Add pictures" }).click(),
    ]);
    await chooser.setFiles({ name: "a.png", mimeType: "image/png", buffer: png });
    await page.getByRole("img", { name: "Picture 1" }).waitFor();
    await ask("what do you see");
    await conversation().getByText("I see 1 picture.").waitFor();
    await page.reload();
    await conversation().getByRole("img", { name: "Picture 1" }).waitFor();
  });

  await test("a draft outlives a reload, and messages of a megabyte are kept whole", async () => {
    await question().fill("not sent yet");
    await page.reload();
    await until("the draft", async () => (await question().inputValue()) === "not sent yet");
    await page.getByRole("link", { name: "New chat" }).click();
    const much = `${"0123456789 ".repeat(9)}\n`.repeat(10_500);
    page.setDefaultTimeout(30_000);
    await page.evaluate((text) => navigator.clipboard.writeText(text), much);
    await question().press("Control+V");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await finished();
    assert.equal(engine.seen.last.messages.at(-1).content.length, much.length);
    await page.reload();
    await conversation().getByRole("button", { name: "Show the whole text" }).waitFor();
    await ask("and now");
    await conversation().getByText("You said: and now").waitFor();
    assert.equal(engine.seen.last.messages[0].content.length, much.length);
    page.setDefaultTimeout(10_000);
  });

  await test("several models answer side by side", async () => {
    await page.getByRole("link", { name: "New chat" }).click();
    await page.getByRole("button", { name: "Compare with another model" }).click();
    await page.getByRole("combobox", { name: "Model 2" }).selectOption(LONG);
    await ask("long 400");
    const both = page.getByRole("log", { name: "Conversation" });
    await until("two conversations", async () => (await both.count()) === 2);
    for (const at of [0, 1]) await both.nth(at).getByText("finished").waitFor();
    await both.nth(0).hover();
    await page.mouse.wheel(0, -20_000);
    await until("the other one to follow", async () => (await both.nth(1).evaluate((box) => box.scrollTop)) === 0);
    await ask("more");
    for (const at of [0, 1]) await both.nth(at).getByText("You said: more").waitFor();
    await look("compare");
    await page.reload();
    for (const at of [0, 1]) await both.nth(at).getByText("You said: more").waitFor();
  });

  await test("what grows lets go of a reader who scrolls up", async () => {
    await page.getByRole("link", { name: "New chat" }).click();
    await ask("long 1500");
    await until("something to scroll", async () => conversation().evaluate((box) => box.scrollHeight > box.clientHeight + 400));
    await conversation().hover();
    await page.mouse.wheel(0, -300);
    await page.getByRole("button", { name: "To the end" }).waitFor();
    const at = await conversation().evaluate((box) => box.scrollTop);
    await sleep(500);
    assert.ok(Math.abs((await conversation().evaluate((box) => box.scrollTop)) - at) < 5, "it stays where the reader is");
    await page.getByRole("button", { name: "To the end" }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await conversation().getByText("stopped by you").waitFor();
  });

  await test("chats are found, and deleted one by one or all", async () => {
    const list = page.getByRole("navigation", { name: "Chats" });
    await page.keyboard.press("Escape");
    await page.getByRole("searchbox", { name: "Search chats" }).fill("think no such thing");
    await list.getByText("No chat matches.").waitFor();
    await page.getByRole("searchbox", { name: "Search chats" }).fill("first words");
    await until("one chat", async () => (await list.getByRole("link").count()) === 1);
    await list.getByRole("link").hover();
    await list.getByRole("button", { name: /^Delete/ }).click();
    const dialog = page.getByRole("dialog", { name: /^Delete “first words”/ });
    await dialog.waitFor();
    await look("delete");
    await dialog.getByRole("button", { name: "Delete chat" }).click();
    await list.getByText("No chat matches.").waitFor();
    await page.getByRole("searchbox", { name: "Search chats" }).fill("");
    await page.getByRole("button", { name: "Delete all chats" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete all chats" }).click();
    await list.getByText("Your chats will be here.").waitFor();
  });

  await test("texts become vectors, and documents are ranked", async () => {
    await page.getByRole("radio", { name: "Embedding" }).check();
    await page.getByRole("textbox", { name: "Texts" }).fill("a cat\na dog\nشجرة كبيرة");
    await page.getByRole("button", { name: "Make vectors" }).click();
    await page.getByRole("table", { name: "Similarity" }).waitFor();
    assert.equal(await page.getByRole("table", { name: "Similarity" }).getByRole("cell", { name: "1", exact: true }).count(), 3);
    await look("embedding");
    await page.getByRole("radio", { name: "Rerank" }).check();
    await page.getByRole("textbox", { name: "Query" }).fill("a cat");
    await page.getByRole("textbox", { name: "Documents" }).fill("dogs bark\na cat sleeps");
    await page.getByRole("button", { name: "Rank" }).click();
    const bars = page.getByRole("list", { name: "Ranking" }).getByRole("listitem");
    await until("the ranking", async () => (await bars.count()) === 2);
    assert.match(await bars.first().textContent(), /a cat sleeps/);
    await look("rerank");
  });

  await test("a model that stops is told of, and nothing is sent to it", async () => {
    await page.goto(`${ui}/playground`);
    await page.getByRole("combobox", { name: "Model" }).selectOption("mock");
    await ask("before the end");
    await finished();
    for (const name of ["mock", LONG])
      await fetch(`${gatewayUrl}/admin/models/registry/${encodeURIComponent(name)}`, { method: "DELETE", headers: { cookie } });
    await page.getByText("mock does not run. Choose another model, or start it.").waitFor();
    await look("stopped");
    await page.getByRole("link", { name: "New chat" }).click();
    await page.getByText("No model that generates text runs now.").waitFor();
    await look("no-model");
  });

  await test("everything is there in German", async () => {
    const german = await browser.newContext({ locale: "de-DE", storageState: await context.storageState() });
    const other = await german.newPage();
    await other.goto(`${ui}/playground`);
    await other.evaluate(() => localStorage.setItem("gantry.language", "de"));
    await other.reload();
    await other.getByText("Zurzeit läuft kein Modell, das Text erzeugt.").waitFor();
    await german.close();
  });

  assert.deepEqual(complaints, [], "the console has no complaint");
  console.log(`${passed} tests passed`);
} finally {
  await browser.close();
  engine.stop();
  for (const child of children) child.kill();
  await sleep(300);
  rmSync(dir, { recursive: true, force: true });
}
process.exit();
