// Many tabs of one browser, which has six connections for one address: they share the stream of events, and those that nobody looks
// at hold none for a log.
import assert from "node:assert/strict";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, openPage, startGateway, test, until } from "./harness.mjs";

const TABS = 8;
const EVENTS = /^200 GET \/admin\/events$/;

export default async function () {
  const gateway = await startGateway();
  writeGguf(join(gateway.models, "tiny.gguf"));
  const api = await gateway.as();
  const record = { engine_type: "llamacpp", local_path: "tiny.gguf" };
  const streamsOf = (...pages) => pages.flatMap((page) => page.answers).filter((it) => EVENTS.test(it)).length;
  /** Tells a page that somebody looks at another tab, or at it again: without a window, Chromium takes every tab for visible. */
  const look = (page, at) =>
    page.evaluate((to) => {
      Object.defineProperty(document, "visibilityState", { value: to, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, at);
  const openModels = async (page) => {
    await page.goto(`${gateway.ui}/models`);
    await heading(page, "Models").waitFor();
  };

  await test("eight tabs of one browser all load, with one stream of events, and go on when the tab that reads it is closed", async () => {
    const first = await gateway.page({ as: "ada" });
    await openModels(first);
    await until("the stream of events", () => streamsOf(first) === 1);
    const others = [];
    while (others.length < TABS - 1) {
      const page = await openPage(first.context());
      await openModels(page);
      others.push(page);
    }
    const seen = (name) => Promise.all(others.map((page) => page.getByRole("link", { name }).waitFor()));
    const one = await api("POST", "/admin/models", { ...record, served_name: "seen-by-all" });
    await seen("seen-by-all");
    // A tab that got no time for half a minute may have lost its place to another.
    assert.ok(streamsOf(first, ...others) < TABS / 2, "the tabs share a stream");
    const before = streamsOf(...others);
    await first.close();
    await until("another tab reads the events", () => streamsOf(...others) > before || before > 0);
    const two = await api("POST", "/admin/models", { ...record, served_name: "seen-by-the-rest" });
    await seen("seen-by-the-rest");
    assert.ok(streamsOf(...others) < TABS / 2, "the tabs that are left share a stream");
    for (const { id } of [one, two]) await api("DELETE", `/admin/models/${id}`);
    for (const page of others) await page.close();
  });

  await test("a tab that is not looked at gives up the connection of a followed log, and shows the whole log again when it is", async () => {
    const { id } = await api("POST", "/admin/models", { ...record, served_name: "logged" });
    await api("POST", `/admin/models/${id}/start`);
    const page = await gateway.page({ as: "ada" });
    const isFollowed = (request) => /\/logs\?.*follow=true/.test(request.url());
    const followed = { opened: 0, ended: 0 };
    page.on("request", (request) => isFollowed(request) && (followed.opened += 1));
    page.on("requestfailed", (request) => isFollowed(request) && (followed.ended += 1));
    await until("the start", async () => (await api("GET", `/admin/models/${id}`)).state === "running");
    await page.goto(`${gateway.ui}/models/${id}?tab=logs`);
    const line = page.getByRole("log").getByText("listening on").first();
    await line.waitFor();
    const before = { ...followed };
    await look(page, "hidden");
    await until("the end of the connection", () => followed.ended > before.ended);
    assert.equal(await line.isVisible(), true, "what was read stays");
    await look(page, "visible");
    await until("the log is read again", () => followed.opened > before.opened);
    await line.waitFor();
    await api("POST", `/admin/models/${id}/stop`);
    await page.close();
  });

  await test("over plain HTTP in a network, where browsers have no locks, a tab reads events while it is looked at", async () => {
    const page = await gateway.page({ as: "ada" });
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { value: undefined }));
    let ended = 0;
    page.on("requestfailed", (request) => request.url().endsWith("/admin/events") && (ended += 1));
    await openModels(page);
    await until("the stream of events", () => streamsOf(page) === 1);
    await look(page, "hidden");
    await until("the end of the stream", () => ended === 1);
    await api("POST", "/admin/models", { ...record, served_name: "made-meanwhile" });
    await look(page, "visible");
    await page.getByRole("link", { name: "made-meanwhile" }).waitFor();
    assert.equal(streamsOf(page), 2);
    await page.close();
  });
}
