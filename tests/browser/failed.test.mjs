// Models that have failed: every page calls them so, says when, and has room for the others.
import assert from "node:assert/strict";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { heading, look, startGateway, step, until } from "./harness.mjs";

const FAILED = 8;

export default async function () {
  const gateway = await startGateway();
  writeGguf(join(gateway.models, "tiny.gguf"));
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada" });
  const open = async (path, title) => {
    await page.goto(`${gateway.ui}${path}`);
    await heading(page, title).waitFor();
  };
  const record = { engine_type: "llamacpp", local_path: "tiny.gguf", extra_args: ["--bogus-flag"], restart_policy: "never" };
  for (let at = 1; at <= FAILED; at += 1) {
    const { id } = await api("POST", "/admin/models", { ...record, served_name: `broken-${at}` });
    await api("POST", `/admin/models/${id}/start`);
  }
  await until("all have failed", async () => (await api("GET", "/admin/models")).every((it) => it.state === "failed"));

  await step("many failed models take a line each, and say why when they are opened", async () => {
    await open("/models", "Models");
    await page.getByRole("row", { name: /broken-8/ }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Why", exact: true }).count(), 0);
    await page.getByRole("button", { name: "Details of broken-3", exact: true }).click();
    await page.getByRole("link", { name: "Why", exact: true }).waitFor();
    await look(page, "models-failed");
  });

  await step("the overview says when each has failed", async () => {
    await open("/", "Overview");
    const failures = page.getByRole("list", { name: "Newest failures" }).getByRole("listitem");
    await failures.filter({ hasText: "broken-1 failed" }).waitFor();
    await until("the times", async () => (await failures.locator("time").count()) === FAILED);
    await look(page, "overview-failed");
  });

  await step("a failure that was seen is hidden, also after a reload, and shows again when it happens again", async () => {
    const failures = page.getByRole("list", { name: "Newest failures" }).getByRole("listitem");
    await page.getByRole("button", { name: "Mark as seen: broken-1 failed", exact: true }).click();
    await until("it is hidden", async () => (await failures.count()) === FAILED - 1);
    await open("/", "Overview");
    await page.getByRole("button", { name: "Show 1 failure that was seen", exact: true }).click();
    await failures.filter({ hasText: "broken-1 failed" }).waitFor();
    // Only what has a time can be marked.
    await until("the times", async () => (await failures.locator("time").count()) === FAILED);
    await page.getByRole("button", { name: "Hide what was seen", exact: true }).click();
    await page.getByRole("button", { name: "Mark all as seen", exact: true }).click();
    await page.getByText("No new failure.", { exact: true }).waitFor();
    const { id } = (await api("GET", "/admin/models")).find((it) => it.served_name === "broken-1");
    const newest = async () => (await api("GET", `/admin/models/${id}/events?limit=1`))[0];
    const before = await newest();
    await api("POST", `/admin/models/${id}/start`);
    await until("it has failed again", async () => {
      const now = await newest();
      return now.to === "failed" && now.at !== before.at;
    });
    await open("/", "Overview");
    await failures.filter({ hasText: "broken-1 failed" }).waitFor();
    assert.equal(await failures.count(), 1);
  });

  await step("a German page says cause, remedies and the help of settings in German, with the values of the failure", async () => {
    const german = await gateway.page({ as: "ada", locale: "de-DE" });
    const { id } = (await api("GET", "/admin/models")).find((it) => it.served_name === "broken-3");
    await german.goto(`${gateway.ui}/models/${id}`);
    await german.getByText("Argument in dieser Version unbekannt", { exact: true }).first().waitFor();
    await german.getByText(/^Dieser Build von llama\.cpp kennt --bogus-flag nicht: /).first().waitFor();
    await german.getByText(/^Oder verwenden Sie ein Image, dessen Tag den Build nennt/).first().waitFor();
    assert.equal(await german.getByText("Argument unknown to this version").count(), 0);
    await german.goto(`${gateway.ui}/models/${id}?tab=configuration`);
    await german.getByText(/^Kontextlänge, die sich alle Slots teilen; 0 bedeutet die des Modells\./).waitFor();
    await german.goto(`${gateway.ui}/`);
    await german.getByText("Argument in dieser Version unbekannt", { exact: true }).first().waitFor();
    await german.close();
  });

  await step("the page of the system calls their upstreams failed, too", async () => {
    await open("/system", "System");
    const upstreams = page.getByRole("table", { name: "Upstreams" });
    await upstreams.getByRole("row", { name: /broken-1/ }).getByText("Failed", { exact: true }).waitFor();
    assert.equal(await upstreams.getByText("Stopped", { exact: true }).count(), 0);
  });
}
