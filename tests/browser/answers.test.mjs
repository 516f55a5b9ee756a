// Answers of the playground live on the gateway: a reload, a second tab, no tab at all, engines that die, a gateway that dies.
import assert from "node:assert/strict";
import { FORMULAS, startEngine, SUM } from "./engine.mjs";
import { atEnd, look, openPage, startGateway, test, until } from "./harness.mjs";

export default async function answers() {
  const engine = await startEngine({ rate: 100 });
  atEnd(async () => engine.stop());
  const gateway = await startGateway();
  const api = await gateway.as();
  for (const served_name of ["mock", "other"])
    await api("POST", "/admin/models/registry", { served_name, url: engine.url, upstream_model: "mock" });
  const page = await gateway.page({ as: "ada" });
  const here = (tab) => ({
    conversation: tab.getByRole("log", { name: "Conversation" }),
    question: tab.getByRole("textbox", { name: "Question", exact: true }),
    stop: tab.getByRole("button", { name: "Stop", exact: true }),
    list: tab.getByRole("navigation", { name: "Chats" }),
  });
  const { conversation, question, stop, list } = here(page);
  const words = async (of = conversation) => (await of.getByRole("article").last().innerText()).length;
  const begins = (of = conversation) => of.getByRole("article").last().getByText(/brown fox/).first().waitFor();
  const grows = (what, had, of = conversation) => until(what, async () => (await words(of)) > had + 60);
  /** Asks in a new chat. A long answer goes on after `most` tokens only when the engine is told. */
  const ask = async (text, most = Number.POSITIVE_INFINITY) => {
    engine.hold(most);
    await page.goto(`${gateway.ui}/playground`);
    await page.getByRole("combobox", { name: "Model" }).selectOption("mock");
    await question.fill(text);
    await question.press("Enter");
  };
  const chatOf = (tab) => new URL(tab.url()).pathname.split("/").at(-1);
  const stored = async (id) => (await api("GET", `/v1/chat/sessions/${id}`)).messages;
  const answered = (id) => until("the end of the answer", async () => !(await api("GET", `/v1/chat/sessions/${id}`)).answering);

  await test("an answer goes on over a reload, and is whole, with its own figures", async () => {
    const before = engine.seen.count;
    await ask("long 500", 100);
    await begins();
    const had = await words();
    await list.getByText("answering").waitFor();
    await look(page, "answers-writing");
    await page.reload();
    await begins();
    engine.go();
    await grows("more words than before", had);
    await conversation.getByText("finished").waitFor();
    await conversation.getByText("500 tokens", { exact: true }).waitFor();
    await until("the mark to go", async () => (await list.getByText("answering").count()) === 0);
    const [asked, answer, ...more] = await stored(chatOf(page));
    assert.deepEqual(more, [], "one question and one answer");
    const { ttft_ms, total_ms, completion_tokens, ending, parent } = answer.metrics;
    assert.equal(parent, asked.id);
    assert.deepEqual([completion_tokens, ending], [500, "stop"]);
    // 500 tokens at 100 in a second.
    assert.ok(ttft_ms < total_ms && total_ms > 4000, `TTFT ${ttft_ms} ms of ${total_ms} ms, as the gateway saw them`);
    assert.equal(answer.content.match(/fox/g)?.length, (await conversation.innerText()).match(/fox/g)?.length);
    assert.equal(engine.seen.count, before + 1, "the engine was asked once");
  });

  await test("a second tab shows an answer while it comes, and stops it for both", async () => {
    const cut = engine.seen.cut;
    const second = await openPage(page.context());
    const other = here(second);
    await second.goto(`${gateway.ui}/playground/${chatOf(page)}`);
    await other.conversation.getByText("finished").waitFor();
    engine.hold(100);
    await question.fill("long 3000");
    await question.press("Enter");
    // The question came to the second tab while it stood there.
    await other.conversation.getByText("long 3000").waitFor();
    await begins(other.conversation);
    const had = await words(other.conversation);
    engine.hold(200);
    await grows("words in the second tab", had, other.conversation);
    await other.stop.click();
    for (const of of [conversation, other.conversation]) await of.getByText("stopped by you").waitFor();
    await until("the end at the engine", async () => engine.seen.cut > cut);
    await second.close();
  });

  await test("an answer that nobody looks at ends, and is there later", async () => {
    await ask("long 300", 100);
    await begins();
    const chat = chatOf(page);
    await page.getByRole("link", { name: "Overview" }).first().click();
    await page.getByRole("link", { name: "Playground" }).first().click();
    await list.getByRole("link", { name: /long 300/ }).first().click();
    await begins();
    const had = await words();
    engine.hold(200);
    await grows("more words", had);
    await page.goto("about:blank");
    engine.go();
    await answered(chat);
    await page.goto(`${gateway.ui}/playground/${chat}`);
    await conversation.getByText("300 tokens", { exact: true }).waitFor();
    assert.equal((await stored(chat)).length, 2);
  });

  await test("two models side by side both go on over a reload", async () => {
    engine.hold(100);
    await page.goto(`${gateway.ui}/playground?model=mock&model2=other`);
    await question.fill("long 400");
    await question.press("Enter");
    await until("two conversations", async () => (await conversation.count()) === 2);
    for (const at of [0, 1]) await begins(conversation.nth(at));
    await page.reload();
    engine.go();
    for (const at of [0, 1]) await conversation.nth(at).getByText("400 tokens", { exact: true }).waitFor();
  });

  await test("formulas of an answer are drawn, prices stay text, and a copy has the source", async () => {
    await ask("a formula, please");
    await conversation.getByText("finished").waitFor();
    const answer = conversation.getByRole("article").last();
    await until("five formulas", async () => (await answer.locator("math").count()) === 5);
    await answer.getByText("It costs $5 and $6, or $7. Here are").waitFor();
    assert.equal(await answer.getByText("$z$", { exact: true }).evaluate((it) => it.tagName), "CODE");
    const wrong = answer.getByText("\\frac{1}{", { exact: true });
    assert.match(await wrong.getAttribute("title"), /^The formula has an error: /);
    const colours = await answer.evaluate((it) => [...it.querySelectorAll("p:has(math), math")].map((one) => getComputedStyle(one).color));
    assert.equal(new Set(colours).size, 1, `formulas have the colour of the text: ${colours}`);
    await look(page, "answers-formulas");
    await page.setViewportSize({ width: 390, height: 900 });
    const boxes = await answer.locator("math").evaluateAll((all) =>
      all.map((it) => it.closest("span[tabindex]")).filter(Boolean).map((it) => ({ wide: it.scrollWidth > it.clientWidth, right: it.getBoundingClientRect().right })));
    assert.equal(boxes.filter((it) => it.wide).length, 1, "the wide formula scrolls in its own box");
    assert.ok(boxes.every((it) => it.right <= 390), JSON.stringify(boxes));
    await page.setViewportSize({ width: 1440, height: 900 });
    await answer.getByRole("button", { name: "Copy as markdown" }).click();
    await until("the copy", async () => (await page.evaluate(() => navigator.clipboard.readText())) === FORMULAS);
    assert.ok(FORMULAS.includes(SUM));
  });

  await test("an engine that dies leaves what came, with its cause and a way on", async () => {
    await ask("die please");
    await conversation.getByText("The answer broke off.").waitFor();
    await page.reload();
    await conversation.getByText("A beginning").waitFor();
    await conversation.getByRole("button", { name: "Continue" }).click();
    await conversation.getByText("A beginning and its end.").waitFor();
    await conversation.getByText("finished").waitFor();
    await page.reload();
    await conversation.getByText("A beginning and its end.").waitFor();
  });

  await test("a question that the engine refuses says why, and can be asked again", async () => {
    page.allow(/400 POST .*completions/);
    await ask("refuse this");
    await conversation.getByRole("alert").getByText(/temperature must be smaller/i).waitFor();
    await look(page, "answers-refused");
    await page.reload();
    await conversation.getByText("This question has no answer.").waitFor();
    await conversation.getByRole("button", { name: "Answer it" }).click();
    await conversation.getByRole("alert").getByText(/temperature must be smaller/i).waitFor();
    page.forbid();
  });

  await test("a reload before the first token waits on; Stop leaves the question alone then", async () => {
    await ask("wait please");
    await conversation.getByText("Waiting for the first token").waitFor();
    await page.reload();
    await conversation.getByText("Waiting for the first token").waitFor();
    await stop.click();
    await conversation.getByText("This question has no answer.").waitFor();
    assert.equal((await stored(chatOf(page))).length, 1);
  });

  await test("an answer that could not be stored stays on the page until it is saved", async () => {
    await ask("first");
    await conversation.getByText("You said: first").waitFor();
    const chat = chatOf(page);
    const [, { id }] = await until("the answer", async () => {
      const messages = await stored(chat);
      return messages.length === 2 && messages;
    });
    const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
    // No database can be made to fail here, so the page hears what the gateway would say then.
    await page.route("**/completions", (route) => route.fulfill({
      contentType: "text/event-stream",
      body: [
        event("begin", { parent: id + 1, continues: false, model: "mock", started_at: Date.now(), request_id: "r" }),
        event("delta", { text: "Not stored.", tokens: 3, ttft_ms: 5 }),
        event("end", { messages: [], error: { code: "database_unavailable", message: "the database is away", param: null, type: "x" }, content: "Not stored." }),
      ].join(""),
    }));
    await question.fill("second");
    await question.press("Enter");
    await conversation.getByText("The answer is here, but the gateway could not store it.").waitFor();
    await conversation.getByText("The database is away.").waitFor();
    await look(page, "answers-unsaved");
    await page.unroute("**/completions");
    await conversation.getByRole("button", { name: "Save the answer" }).click();
    await conversation.getByText("The answer is here, but").waitFor({ state: "detached" });
    await conversation.getByText("Not stored.").waitFor();
    assert.equal((await stored(chat)).at(-1).content, "Not stored.");
    await question.fill("third");
    await question.press("Enter");
    await conversation.getByText("You said: third").waitFor();
  });

  await test("a gateway that dies in mid-answer leaves what had arrived, and what is typed", async () => {
    await ask("long 3000", 100);
    await begins();
    await question.fill("and then");
    page.allow(/^lost /, /completions\/current/);
    await gateway.kill();
    await conversation.getByText("The connection to the gateway is lost.").waitFor();
    await look(page, "answers-lost");
    await gateway.start();
    await conversation.getByText("The gateway ended before the answer was complete, and did not store it.").waitFor();
    await look(page, "answers-interrupted");
    assert.equal(await question.inputValue(), "and then");
    await conversation.getByText(/brown fox/).first().waitFor();
    await page.getByText("The last answer is not stored.").waitFor();
    await conversation.getByRole("button", { name: "Save the answer" }).click();
    await conversation.getByText("The answer was cut off before it was complete.").waitFor();
    await page.reload();
    await conversation.getByText("The answer was cut off before it was complete.").waitFor();
    await conversation.getByText(/brown fox/).first().waitFor();
    assert.equal(await question.inputValue(), "and then");
    page.forbid();
    await question.press("Enter");
    await conversation.getByText("You said: and then").waitFor();
  });
}
