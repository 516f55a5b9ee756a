// Numbers over time: a part of them is chosen by dragging, and one crosshair says what all of them were.
import assert from "node:assert/strict";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, startGateway, step, until } from "./harness.mjs";

export default async function () {
  const gateway = await startGateway();
  writeGguf(join(gateway.models, "tiny.gguf"));
  const api = await gateway.as();
  const key = await api("POST", "/admin/keys", { org_id: (await api("GET", "/admin/orgs"))[0].id, name: "load" });
  const model = await api("POST", "/admin/models", { served_name: "tiny", engine_type: "llamacpp", local_path: "tiny.gguf" });
  await api("POST", `/admin/models/${model.id}/start`, {});
  await until("the start", async () => (await api("GET", `/admin/models/${model.id}`)).state === "running");
  const ask = (name) =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST", headers: { authorization: `Bearer ${key.token ?? key.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: name, messages: [{ role: "user", content: "Hello" }] }),
    }).then((answer) => answer.text());
  for (let at = 0; at < 5; at += 1) await ask("tiny");
  for (let at = 0; at < 3; at += 1) await ask("no-such-model");
  const page = await gateway.page({ as: "ada" });
  const open = async (path, title) => {
    await page.goto(`${gateway.ui}${path}`);
    await heading(page, title).waitFor();
  };
  /** The place of a drawing: it is for eyes and the mouse only, so it has no role. */
  const boxOf = async (figure, pane = 0) => {
    const canvas = figure.locator("canvas").nth(pane);
    await canvas.waitFor();
    await canvas.scrollIntoViewIfNeeded();
    return canvas.boundingBox();
  };

  await step("the values of each series are told, in its legend and as a table", async () => {
    await open("/usage?range=1h&by=model", "Usage");
    const figure = page.getByRole("figure", { name: "Requests a minute" });
    await figure.getByRole("button", { name: /^tiny/ }).waitFor();
    await figure.getByText("Show as a table").click();
    const rows = figure.getByRole("table").getByRole("row");
    const head = await rows.first().getByRole("columnheader").allInnerTexts();
    assert.ok(head.includes("tiny") && head.includes("no-such-model"), head.join());
    const sum = async (name) => {
      const cells = await figure.getByRole("table").locator("tbody tr").evaluateAll(
        (all, at) => all.map((it) => Number(it.children[at].textContent)), head.indexOf(name));
      return cells.reduce((a, b) => a + b, 0);
    };
    assert.deepEqual([await sum("tiny"), await sum("no-such-model")], [5, 3]);
    // One of them alone.
    await figure.getByRole("button", { name: /^tiny/ }).click();
    assert.equal(await figure.getByRole("button", { name: /^tiny/ }).getAttribute("aria-pressed"), "true");
    await figure.getByRole("button", { name: /^tiny/ }).click();
  });

  await step("dragging over the usage zooms into the address, and Back zooms out", async () => {
    const figure = page.getByRole("figure", { name: /^Requests a/ });
    const box = await boxOf(figure);
    const y = box.y + box.height / 2;
    const before = page.url();
    await page.mouse.move(box.x + box.width * 0.5, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, y, { steps: 5 });
    await page.mouse.move(box.x + box.width * 0.9, y, { steps: 5 });
    await page.mouse.up();
    await page.waitForURL((url) => url.searchParams.has("from") && url.searchParams.has("to"));
    const { searchParams } = new URL(page.url());
    const [from, to] = ["from", "to"].map((it) => Number(searchParams.get(it)) || Date.parse(searchParams.get(it)));
    assert.ok(to > from && to - from < 3_600_000 / 2, `${from} to ${to}`);
    await page.goBack();
    await page.waitForURL(before);
  });

  await step("the range that is chosen is the range that is shown, however few samples there are", async () => {
    await until("two samples", async () => (await api("GET", "/admin/system/host/trends?minutes=60")).cpu_util_pct.length >= 2);
    await open("/system", "System");
    const box = await boxOf(page.getByRole("figure").first());
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.2, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, y, { steps: 5 });
    await page.mouse.move(box.x + box.width * 0.9, y, { steps: 5 });
    await page.mouse.up();
    await page.waitForURL((url) => url.searchParams.has("from") && url.searchParams.has("to"));
    const { searchParams } = new URL(page.url());
    const [from, to] = ["from", "to"].map((it) => Date.parse(searchParams.get(it)));
    // More than half of the chart is more than half of its hour, although the gateway has run for a minute.
    assert.ok(to - from > 1_800_000, `${from} to ${to}`);
  });

  await step("the system page has one crosshair for all its charts", async () => {
    await until("two samples", async () => (await api("GET", "/admin/system/host/trends?minutes=5")).cpu_util_pct.length >= 2);
    await open("/system?minutes=5", "System");
    const figure = page.getByRole("figure").first();
    const panes = figure.locator("canvas");
    await until("the charts", async () => (await panes.count()) >= 4);
    const box = await boxOf(figure, 1);
    await page.mouse.move(box.x + box.width * 0.9, box.y + box.height / 2);
    // Each pane tells the time under the crosshair, and what it was then.
    const told = await until("the time in each", async () => {
      const times = await figure.getByText(/\d{1,2}:\d{2}:\d{2}/).allInnerTexts();
      const legends = times.filter((it) => !it.includes("\n"));
      return legends.length >= 4 && legends.slice(0, 4);
    });
    assert.equal(new Set(told).size, 1, told.join());
  });
}
