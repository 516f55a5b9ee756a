// The playground: questions, answers, what goes wrong meanwhile, parameters, pictures, models side by side, vectors and ranks.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startEngine } from "./engine.mjs";
import { writeGguf } from "./gguf.mjs";
import { atEnd, escape, heading, look, rail, startGateway, step, until, within } from "./harness.mjs";

const LONG = "un-modèle-très-long-😀-with-a-name-that-does-not-fit-anywhere-at-all-in-390-pixels";

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const lastOf = (request) => request.messages.findLast((it) => it.role === "user").content;
const textOf = (request) => [lastOf(request)].flat().map((it) => it.text ?? it).at(-1);
const picturesIn = (request) => [lastOf(request)].flat().filter((it) => it.type === "image_url").length;

/** Starts a simulator that makes vectors. Returns its address. */
async function startVectors() {
  const args = ["engine-sim", "--host", "127.0.0.1", "--port", "0", "--model", "x", "--served-model-name", "vectors", "--runner", "pooling"];
  const child = spawn(process.env.GANTRY, args, { stdio: ["ignore", "ignore", "pipe"] });
  atEnd(async () => void child.kill());
  return within("the start of the simulator", (found, ended) => {
    child.once("exit", (code) => ended(new Error(`the simulator ended with ${code}`)));
    createInterface({ input: child.stderr }).on("line", (line) => {
      const address = /server on (http:\S+)/.exec(line)?.[1];
      if (address) found(address);
    });
  });
}

export default async function () {
  const engine = await startEngine();
  atEnd(async () => engine.stop());
  const vectors = await startVectors();
  const gateway = await startGateway();
  const api = await gateway.as();
  for (const entry of [
    { served_name: "mock", url: engine.url },
    { served_name: LONG, url: engine.url, upstream_model: "mock" },
    { served_name: "vectors", url: vectors, task: "embed" },
  ])
    await api("POST", "/admin/models/registry", entry);
  writeGguf(join(gateway.models, "blind.gguf"), { name: "blind" });
  const blind = await api("POST", "/admin/models", { served_name: "blind", engine_type: "llamacpp", local_path: "blind.gguf" });
  await api("POST", `/admin/models/${blind.id}/start`, {});
  await until("the start", async () => (await api("GET", `/admin/models/${blind.id}`)).state === "running");
  const page = await gateway.page({ as: "ada" });
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  const question = () => page.getByRole("textbox", { name: "Question", exact: true });
  const conversation = () => page.getByRole("log", { name: "Conversation" });
  const fresh = () => page.getByRole("link", { name: "New chat" }).click();
  const ask = async (text) => {
    await page.getByRole("button", { name: "Send", exact: true }).waitFor();
    await question().fill(text);
    await question().press("Enter");
  };
  /** Adds a picture to the question. */
  const pick = async (buffer) => {
    const [chooser] = await Promise.all([
      page.waitForEvent("filechooser"),
      page.getByRole("button", { name: "Add pictures" }).click(),
    ]);
    await chooser.setFiles({ name: "a.png", mimeType: "image/png", buffer });
  };
  const finished = (word = "finished") => conversation().getByText(word, { exact: true }).last().waitFor();

  await step("a new chat says what it is for", async () => {
    await page.goto(`${gateway.ui}/playground`);
    await page.getByText("Ask something.").waitFor();
    await page.getByText("Your chats will be here.").waitFor();
    await page.getByRole("combobox", { name: "Model" }).selectOption("mock");
    await look(page, "playground-new");
  });

  await step("a question gets an answer with markdown, figures and an address of its own; hostile text does nothing", async () => {
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
    await look(page, "playground-answer");
  });

  await step("reasoning is folded and says how long it took; tool calls are shown", async () => {
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

  await step("an engine that dies keeps what came, with the cause, the request id and a way on", async () => {
    await ask("die please");
    await conversation().getByText("The answer broke off.").waitFor();
    await conversation().getByText("A beginning").waitFor();
    await conversation().getByText("Request", { exact: false }).last().waitFor();
    await look(page, "playground-broken-off");
    await conversation().getByRole("button", { name: "Continue" }).click();
    await conversation().getByText("A beginning and its end.").waitFor();
    assert.equal(engine.seen.last.messages.at(-1).content, "A beginning");
  });

  await step("Stop ends an answer at the engine, too, and what came stays", async () => {
    const cut = engine.seen.cut;
    await ask("sleep a while");
    await conversation().getByText(/^0 1 2/).waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await conversation().getByText("stopped by you").waitFor();
    await until("the end at the engine", async () => engine.seen.cut > cut);
  });

  await step("a question can be edited, an answer written again, and every version is there", async () => {
    await fresh();
    await ask("first words");
    await finished();
    await question().press("ArrowUp");
    const edit = page.getByRole("textbox", { name: "Edit the question" });
    await edit.fill("second words");
    await look(page, "playground-editing");
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

  await step("parameters are sent, limited by the model, and what the engine refuses stands at its field", async () => {
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
    page.allow(/^400 POST \/v1\/chat\/.*completions$/);
    await ask("refuse this");
    await page.getByRole("alert").getByText(/temperature must be smaller/i).first().waitFor();
    await conversation().getByText("Request", { exact: false }).last().waitFor();
    page.forbid();
    await look(page, "playground-refused");
    await page.getByRole("button", { name: "Reset", exact: true }).click();
    await page.getByRole("button", { name: "Parameters" }).click();
  });

  await step("a system prompt and parameters are kept under a name, chosen again after a reload, and deleted", async () => {
    await page.getByRole("button", { name: "Parameters" }).click();
    const system = page.getByRole("textbox", { name: "System prompt" });
    const save = page.getByRole("button", { name: "Save preset" });
    const presets = page.getByRole("combobox", { name: "Preset" });
    await page.getByRole("textbox", { name: "Name of a new preset" }).fill("Pirate");
    assert.equal(await save.isDisabled(), true, "there is nothing to keep yet");
    await system.fill("Talk like a pirate.");
    await page.getByRole("textbox", { name: "Temperature" }).fill("1.5");
    await save.click();
    await until("the new preset", async () => (await presets.inputValue()) === "Pirate");
    await look(page, "playground-presets");
    await page.getByRole("button", { name: "Reset", exact: true }).click();
    await until("no preset", async () => (await presets.inputValue()) === "");
    await page.reload();
    await presets.selectOption("Pirate");
    assert.equal(await system.inputValue(), "Talk like a pirate.");
    assert.equal(await page.getByRole("textbox", { name: "Temperature" }).inputValue(), "1.5");
    await page.getByRole("button", { name: "Delete the preset “Pirate”" }).click();
    await presets.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Reset", exact: true }).click();
    await page.getByRole("button", { name: "Parameters" }).click();
  });

  await step("the conversation can be copied as programs and as markdown", async () => {
    await page.getByRole("button", { name: "Copy the conversation" }).click();
    const dialog = page.getByRole("dialog", { name: "Copy the conversation" });
    await dialog.getByText(/chat\/completions/).waitFor();
    for (const [name, words] of [["Python", "from openai import OpenAI"], ["JavaScript", 'import OpenAI from "openai"'], ["Markdown", "**You:**"]]) {
      await dialog.getByRole("radio", { name }).check();
      await dialog.getByText(words).first().waitFor();
    }
    await look(page, "playground-copy");
    for (const [name, type, words] of [["Save as Markdown", /\.md$/, "**You:**"], ["Save as JSON", /\.json$/, '"messages"']]) {
      const [file] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name }).click()]);
      assert.match(file.suggestedFilename(), type);
      assert.ok(readFileSync(await file.path(), "utf8").includes(words));
    }
    await escape(page);
  });

  await step("pictures are sent with the question, and shown with it after a reload", async () => {
    await fresh();
    await pick(PNG);
    await page.getByRole("img", { name: "Picture 1" }).waitFor();
    await ask("what do you see");
    await conversation().getByText("I see 1 picture.").waitFor();
    await page.reload();
    await conversation().getByRole("img", { name: "Picture 1" }).waitFor();
  });

  await step("a question that is edited keeps its pictures, and pictures that are not sent outlive a reload", async () => {
    await conversation().getByRole("button", { name: "Edit the question" }).click();
    const edited = page.getByRole("textbox", { name: "Edit the question" });
    await edited.fill("what do you see now");
    await conversation().getByRole("img", { name: "Picture 1" }).waitFor();
    await edited.press("Enter");
    await until("the second question", () => textOf(engine.seen.last) === "what do you see now");
    assert.equal(picturesIn(engine.seen.last), 1);
    await conversation().getByText("I see 1 picture.").waitFor();
    await fresh();
    await pick(PNG);
    await page.getByRole("img", { name: "Picture 1" }).waitFor();
    await page.reload();
    await page.getByRole("img", { name: "Picture 1" }).waitFor();
    await page.getByRole("button", { name: "Remove picture 1" }).click();
    await page.getByRole("img", { name: "Picture 1" }).waitFor({ state: "detached" });
    await page.reload();
    await page.getByText("Ask something.").waitFor();
    assert.equal(await page.getByRole("img", { name: "Picture 1" }).count(), 0);
  });

  await step("a model that sees no pictures is offered none, and says so when one is pasted", async () => {
    await fresh();
    const model = page.getByRole("combobox", { name: "Model" });
    await pick(PNG);
    await page.getByRole("img", { name: "Picture 1" }).waitFor();
    // Its file is there, and no projector beside it.
    await model.selectOption("blind");
    await page.getByText("blind sees no pictures.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Add pictures" }).count(), 0);
    await question().fill("what do you see");
    assert.ok(await page.getByRole("button", { name: "Send", exact: true }).isDisabled());
    await page.getByRole("button", { name: "Remove picture 1" }).click();
    await until("the question can be sent", () => page.getByRole("button", { name: "Send", exact: true }).isEnabled());
    await question().fill("");
    await model.selectOption("mock");
    await page.getByRole("button", { name: "Add pictures" }).waitFor();
    await api("DELETE", `/admin/models/${blind.id}`);
    await ask("a text, then");
    await finished();
  });

  await step("a draft outlives a reload, and messages of a megabyte are kept whole", async () => {
    await question().fill("not sent yet");
    await page.reload();
    await until("the draft", async () => (await question().inputValue()) === "not sent yet");
    await fresh();
    const much = `${"0123456789 ".repeat(9)}\n`.repeat(10_500);
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
  });

  await step("several models answer side by side", async () => {
    await fresh();
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
    await look(page, "playground-compare");
    await page.reload();
    for (const at of [0, 1]) await both.nth(at).getByText("You said: more").waitFor();
  });

  await step("what grows lets go of a reader who scrolls up", async () => {
    await fresh();
    engine.hold(900);
    await ask("long 1500");
    await until("something to scroll", async () => conversation().evaluate((box) => box.scrollHeight > box.clientHeight + 400));
    await conversation().hover();
    await page.mouse.wheel(0, -300);
    await page.getByRole("button", { name: "To the end" }).waitFor();
    const place = () => conversation().evaluate(({ scrollTop, scrollHeight }) => ({ scrollTop, scrollHeight }));
    const before = await place();
    engine.hold(1200);
    const after = await until("more text", async () => {
      const now = await place();
      return now.scrollHeight > before.scrollHeight + 100 && now;
    });
    assert.ok(Math.abs(after.scrollTop - before.scrollTop) < 5, "it stays where the reader is");
    await page.getByRole("button", { name: "To the end" }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await conversation().getByText("stopped by you").waitFor();
    engine.go();
  });

  // What happens to an answer while its page is away, at one place: whether the page or the gateway holds it, nothing of it is lost.
  await step("a reload in mid-answer, and leaving the page, lose nothing", async () => {
    await page.goto(`${gateway.ui}/playground`);
    await ask("sleep again");
    const text = conversation().getByText(/^0 1 2 3 4 5 6 7 8 9 10/).last();
    await text.waitFor();
    const before = await text.textContent();
    await page.reload();
    await text.waitFor();
    const after = await text.textContent();
    assert.ok(after.startsWith(before.trim()), `${before} → ${after}`);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await conversation().getByText("stopped by you").last().waitFor();
    await fresh();
    await ask("long 300");
    await conversation().getByText(/brown fox/).first().waitFor();
    await rail(page).getByRole("link", { name: "Overview" }).click();
    await heading(page, "Overview").waitFor();
    await rail(page).getByRole("link", { name: "Playground" }).click();
    await page.getByRole("navigation", { name: "Chats" }).getByRole("link", { name: /long 300/ }).click();
    await finished();
    await conversation().getByText("300 tokens").waitFor();
  });

  await step("a chat is renamed in place, pinned and saved by the menu of its row", async () => {
    const list = page.getByRole("navigation", { name: "Chats" });
    const more = (title) => list.getByRole("button", { name: `More: “${title}”` });
    const item = (name) => page.getByRole("menuitem", { name, exact: true });
    const field = (title) => list.getByRole("textbox", { name: `New title for “${title}”` });
    const focused = (what, it) => until(`the focus of ${what}`, () => it.evaluate((one) => one === document.activeElement));
    // With keys alone.
    await more("first words").press("Enter");
    await focused("the first item", item("Rename"));
    await page.keyboard.press("Enter");
    await focused("the field", field("first words"));
    await page.keyboard.type("Renamed chat");
    await look(page, "playground-rename", { widths: [1440] });
    await page.keyboard.press("Enter");
    await list.getByRole("link", { name: /^Renamed chat/ }).waitFor();
    await focused("the link", list.getByRole("link", { name: /^Renamed chat/ }));
    await more("Renamed chat").click();
    await item("Rename").click();
    await field("Renamed chat").fill("not this");
    await field("Renamed chat").press("Escape");
    await list.getByRole("link", { name: /^Renamed chat/ }).waitFor();

    await more("Renamed chat").click();
    await item("Pin").click();
    const first = async () => (await list.getByRole("link").first().textContent()).startsWith("Renamed chat");
    await until("the pinned chat at the top", first);
    await list.getByRole("img", { name: "Pinned" }).waitFor();
    await page.reload();
    await until("the pinned chat at the top after a reload", first);

    for (const [name, type, words] of [["Save as Markdown", "md", "**You:**"], ["Save as JSON", "json", '"messages"']]) {
      await more("Renamed chat").click();
      const [file] = await Promise.all([page.waitForEvent("download"), item(name).click()]);
      assert.equal(file.suggestedFilename(), `Renamed chat.${type}`);
      assert.ok(readFileSync(await file.path(), "utf8").includes(words));
    }

    await more("Renamed chat").click();
    await item("Unpin").click();
    await until("another chat at the top", async () => !(await first()));
    await more("Renamed chat").click();
    await item("Rename").click();
    await field("Renamed chat").fill("");
    await list.getByRole("button", { name: "Save", exact: true }).click();
    await list.getByRole("link", { name: /^first words/ }).waitFor();
  });

  await step("a chat is renamed on a narrow screen, too", async () => {
    const phone = await gateway.page({ as: "ada", width: 390, locale: "de-DE" });
    await phone.goto(`${gateway.ui}/playground`);
    await phone.getByRole("button", { name: "Chats", exact: true }).click();
    const list = phone.getByRole("dialog", { name: "Chats" }).getByRole("navigation", { name: "Chats" });
    const field = list.getByRole("textbox", { name: "Neuer Titel für „first words“" });
    const rename = async () => {
      await list.getByRole("button", { name: "Mehr: „first words“" }).click();
      await phone.getByRole("menuitem", { name: "Umbenennen" }).click();
      await field.fill("Auf dem Telefon");
    };
    await rename();
    await look(phone, "playground-rename-narrow", { widths: [390] });
    await field.press("Escape");
    await list.getByRole("link", { name: /^first words/ }).waitFor();
    await rename();
    await list.getByRole("button", { name: "Speichern" }).click();
    await list.getByRole("link", { name: /^Auf dem Telefon/ }).waitFor();
    await phone.close();
    const chats = await api("GET", "/v1/chat/sessions?messages=false");
    const { id } = chats.find((it) => it.title === "Auf dem Telefon");
    await api("PATCH", `/v1/chat/sessions/${id}`, { title: null });
  });

  await step("chats are found, and deleted one by one or all", async () => {
    const list = page.getByRole("navigation", { name: "Chats" });
    await page.keyboard.press("Escape");
    await page.getByRole("searchbox", { name: "Search chats" }).fill("think no such thing");
    await list.getByText("No chat matches.").waitFor();
    await page.getByRole("searchbox", { name: "Search chats" }).fill("first words");
    await until("one chat", async () => (await list.getByRole("link").count()) === 1);
    await list.getByRole("link").hover();
    await list.getByRole("button", { name: /^More/ }).click();
    await page.getByRole("menuitem", { name: "Delete chat" }).click();
    const dialog = page.getByRole("dialog", { name: /^Delete “first words”/ });
    await dialog.waitFor();
    await look(page, "playground-delete");
    await dialog.getByRole("button", { name: "Delete chat" }).click();
    await list.getByText("No chat matches.").waitFor();
    await page.getByRole("searchbox", { name: "Search chats" }).fill("");
    await page.getByRole("button", { name: "Delete all chats" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete all chats" }).click();
    await list.getByText("Your chats will be here.").waitFor();
  });

  await step("texts become vectors, and documents are ranked", async () => {
    await page.getByRole("radio", { name: "Embedding" }).check();
    await page.getByRole("textbox", { name: "Texts" }).fill("a cat\na dog\nشجرة كبيرة");
    await page.getByRole("button", { name: "Make vectors" }).click();
    await page.getByRole("table", { name: "Similarity" }).waitFor();
    assert.equal(await page.getByRole("table", { name: "Similarity" }).getByRole("cell", { name: "1", exact: true }).count(), 3);
    await look(page, "playground-embedding");
    await page.getByRole("radio", { name: "Rerank" }).check();
    await page.getByRole("textbox", { name: "Query" }).fill("a cat");
    await page.getByRole("textbox", { name: "Documents" }).fill("dogs bark\na cat sleeps");
    await page.getByRole("button", { name: "Rank" }).click();
    const bars = page.getByRole("list", { name: "Ranking" }).getByRole("listitem");
    await until("the ranking", async () => (await bars.count()) === 2);
    assert.match(await bars.first().textContent(), /a cat sleeps/);
    await look(page, "playground-rerank");
  });

  await step("a model that stops is told of, and nothing is sent to it", async () => {
    await page.goto(`${gateway.ui}/playground`);
    await page.getByRole("combobox", { name: "Model" }).selectOption("mock");
    await ask("before the end");
    await finished();
    for (const name of ["mock", LONG])
      await api("DELETE", `/admin/models/registry/${encodeURIComponent(name)}`);
    await page.getByText("mock does not run. Choose another model, or start it.").waitFor();
    await look(page, "playground-stopped");
    await fresh();
    await page.getByText("No model that generates text runs now.").waitFor();
    await look(page, "playground-no-model");
  });

  await step("everything is there in German", async () => {
    const german = await gateway.page({ as: "ada", locale: "de-DE" });
    await german.goto(`${gateway.ui}/playground`);
    await german.getByText("Zurzeit läuft kein Modell, das Text erzeugt.").waitFor();
    await german.close();
  });
}
