// Names with every trick of Unicode: they are shown as they are, in one piece, beside others in their order, and nothing of them runs.
import assert from "node:assert/strict";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, look, PASSWORD, startGateway, test, until } from "./harness.mjs";

const HTML = `<img src=x onerror="window.harmed=1">`;
/** The gateway refuses names with invisible characters, such as U+202E and the joiners of emoji. */
const NAMES = {
  arabic: "نموذج تجريبي طويل جدا ٢٠٢٦",
  hebrew: "דגם ניסיון ארוך מאוד (2)",
  marks: `Z${"\u0351\u0317\u0489"}a${"\u030d\u0353"}l${"\u0300\u031e"}g${"\u0305\u0324"}o long enough to be cut q${"\u0323\u0307\u0322"}q${"\u0323\u0307\u0322"}`,
  emoji: "👩🏽🇩🇪👍🏿🏳🇫🇷👩🏽🇩🇪👍🏿🏳🇫🇷👩🏽🇩🇪👍🏿🇫🇷",
  html: HTML,
};
const FAMILY = "👩‍👩‍👧‍👦";
const CHATS = "/v1/chat/sessions";

export default async function () {
  const gateway = await startGateway();
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada" });
  const file = `${NAMES.arabic} ${FAMILY}${FAMILY} ${HTML}.gguf`;
  writeGguf(join(gateway.models, file), { name: "tiny" });
  const names = Object.values(NAMES).map((it) => it.normalize("NFC"));
  const ids = { models: [], chats: [] };
  for (const name of names) {
    const model = await api("POST", "/admin/models", { served_name: name, engine_type: "llamacpp", local_path: file });
    ids.models.push(model.id);
    await api("POST", "/admin/keys", { name });
    const org = await api("POST", "/admin/orgs", { name });
    await api("POST", "/admin/users", { username: name, password: PASSWORD, org_id: org.id });
  }

  /** Nothing ran, no character is cut in two, and each name is a piece of its own for the order of writing. */
  const holds = async () => {
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    const wrong = await page.evaluate((known) => {
      const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
      const count = (text) => Array.from(segmenter.segment(text)).length;
      const cut = [...document.querySelectorAll("bdi[title]")].filter((it) => {
        const parts = [...it.querySelectorAll("[aria-hidden]")].map((part) => count(part.textContent));
        return parts.length === 2 && parts[0] + parts[1] !== count(it.title);
      });
      const mixed = [...document.querySelectorAll("main *")].filter(
        (it) => it.childElementCount === 0 && known.includes(it.textContent) && !it.closest("bdi, [dir=auto], title, option"),
      );
      return [...cut, ...mixed].map((it) => it.outerHTML.slice(0, 300));
    }, names);
    assert.deepEqual(wrong, []);
  };

  for (const [path, title] of [["/models", "Models"], ["/keys", "Keys"], ["/organisations", "Organisations"], ["/users", "Users"]])
    await test(`${title}: each name is shown as it is`, async () => {
      await page.goto(`${gateway.ui}${path}`);
      await heading(page, title).waitFor();
      for (const name of names) await page.getByText(name, { exact: true }).first().waitFor();
      await holds();
      await look(page, `names-${title.toLowerCase()}`);
    });

  await test("names of models have the widest column at every width, in both languages", async () => {
    const real = ["qwen2.5-0.5b-instruct-q4_k_m", "mistral-7b-instruct-v0.3", "bge-m3", "llama-3.2-1b-instruct-q4_k_m"];
    for (const name of real) await api("POST", "/admin/models", { served_name: name, engine_type: "llamacpp", local_path: file });
    for (const locale of ["en-GB", "de-DE"]) {
      const list = await gateway.page({ as: "ada", locale });
      for (const width of [390, 900, 1024, 1280, 1440]) {
        await list.setViewportSize({ width, height: 900 });
        await list.goto(`${gateway.ui}/models`);
        await list.getByText(real[0], { exact: true }).first().waitFor();
        const wrong = await list.evaluate((known) => {
          const box = (it) => it.getBoundingClientRect();
          return [...document.querySelectorAll("main table tbody tr")].flatMap((row) => {
            const [first, ...others] = [...row.cells].filter((it) => box(it).width > 0);
            const name = first?.querySelector("bdi");
            if (!name || !known.includes(name.title || name.textContent)) return [];
            const wider = others.filter((it) => box(it).width > box(first).width);
            const over = others.filter((it) => box(it).left < box(name).right - 1 && getComputedStyle(it).position !== "sticky");
            const narrow = box(name).width < Math.min(110, name.textContent.length * 5);
            return [...wider, ...over].map((it) => it.textContent).concat(narrow ? [`${box(name).width} px`] : []);
          });
        }, real);
        assert.deepEqual(wrong, [], `${locale}, ${width} px`);
        await look(list, `names-models-${locale}-${width}`);
      }
      await list.close();
    }
  });

  await test("the page of a model, its file and its settings", async () => {
    for (const [at, name] of names.entries()) {
      await page.goto(`${gateway.ui}/models/${ids.models[at]}?tab=configuration`);
      await heading(page, name).waitFor();
      await page.getByRole("region", { name: "Command" }).getByText(HTML).first().waitFor();
      await holds();
    }
    await page.goto(`${gateway.ui}/models/new`);
    // A served name may have no joiners: the file's name without them is one, so that the file can be judged.
    await page.getByRole("button", { name: file }).getByText("Unknown", { exact: true }).waitFor();
    await holds();
    await look(page, "names-files");
  });

  await test("a chat's title has no character that turns the order of others, and keeps its emoji whole", async () => {
    for (const name of [...names, `${FAMILY} \u202egpj.exe`]) {
      const chat = await api("POST", CHATS, { model_name: names[0], engine_type: "llamacpp" });
      await api("POST", `${CHATS}/${chat.id}/messages`, { role: "user", content: name });
    }
    await page.goto(`${gateway.ui}/playground`);
    await heading(page, "Playground").waitFor();
    for (const name of [...names, `${FAMILY} gpj.exe`]) await page.getByText(name).first().waitFor();
    await until("all answers", () => page.pending() === 0);
    await holds();
    await look(page, "names-chats");
  });

  await test("the other pages that name people and models", async () => {
    for (const path of ["/", "/audit", "/usage", "/system", `/keys?user=1`, "/deployment?tab=export&what=model"]) {
      await page.goto(`${gateway.ui}${path}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await until("all answers", () => page.pending() === 0);
      await holds();
    }
  });
}
