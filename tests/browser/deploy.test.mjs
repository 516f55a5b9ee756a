// Adding a model where something is in the way: files that can't be loaded, a name that is taken, a hub that can't be reached.
import assert from "node:assert/strict";
import { statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { freePort, heading, look, startGateway, test, until } from "./harness.mjs";

export default async function () {
  // Nobody listens there.
  const hub = `http://127.0.0.1:${await freePort()}`;
  const gateway = await startGateway({ settings: { HUB_ENDPOINT: hub, OFFLINE_MODE: "false" } });
  writeGguf(join(gateway.models, "tiny.gguf"));
  const cut = join(gateway.models, "cut.gguf");
  writeGguf(cut);
  truncateSync(cut, Math.floor(statSync(cut).size / 2));
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada" });
  const button = (name) => page.getByRole("button", { name, exact: true });
  const open = async (search) => {
    await page.goto(`${gateway.ui}/models/new?${search}`);
    await heading(page, "Add a model").waitFor();
  };

  await test("a file that can't be loaded says why", async () => {
    await open("pick=cut.gguf");
    await page.getByRole("list", { name: "Problems" }).getByText(/the file ends before its tensors do/).waitFor();
    assert.equal(await button("Save and start").count(), 0, "there is nothing to serve");
    await look(page, "deploy-unusable");
  });

  await test("a name that is taken is told before the model is saved, and nobody is asked to start it anyway", async () => {
    await api("POST", "/admin/models", { served_name: "taken", engine_type: "llamacpp", local_path: "tiny.gguf" });
    await open("pick=tiny.gguf");
    const served = page.getByLabel("Served name");
    await until("the name that the gateway fills in", async () => (await served.getAttribute("placeholder")) === "tiny");
    await served.fill("taken");
    await page.getByText("This can't be saved: a name is taken.").waitFor();
    assert.equal(await button("Save and start anyway").count(), 0);
    page.allow(/^409 POST \/admin\/models$/);
    await button("Save and start").click();
    await page.getByRole("alert").filter({ hasText: /is served as/ }).first().waitFor();
    page.forbid();
    assert.equal((await api("GET", "/admin/models")).length, 1);
  });

  await test("a hub that can't be reached is told, and its repository is taken for what its name says", async () => {
    page.allow(/^503 GET \/admin\/models\/hub-config$/);
    await open("repo=me%2Fsmall-GGUF");
    await page.getByText(/the hub does not answer/).first().waitFor();
    await page.getByText("What the repository holds is not known.").waitFor();
    assert.equal(await page.getByText("Nothing speaks against a start.").count(), 0);
    await page.getByRole("region", { name: "Command" }).getByText(/me\/small-GGUF/).first().waitFor();
    assert.ok(await page.getByRole("radio", { name: "llama.cpp", exact: true }).isChecked());
    page.forbid();
  });

  await test("after a file was chosen with the keyboard, the keyboard goes on from there", async () => {
    await page.goto(`${gateway.ui}/models/new`);
    const file = page.getByRole("list", { name: "In the models folder" }).getByRole("button", { name: /tiny/ });
    await file.waitFor();
    await file.focus();
    await page.keyboard.press("Enter");
    await button("Choose something else").waitFor();
    await page.keyboard.press("Tab");
    assert.ok(await button("Choose something else").evaluate((it) => it === document.activeElement));
  });

  await test("a page whose first question is lost asks again for as long as it takes", async () => {
    const slow = await gateway.page({ as: "ada" });
    slow.allow(/^lost GET \/auth\/me/, /^console: /);
    let left = 5;
    await slow.route(/\/auth\/me$/, (route) => {
      left -= 1;
      return left >= 0 ? route.abort("failed") : route.continue();
    });
    await slow.goto(`${gateway.ui}/models`);
    await slow.getByRole("alert").getByText("The gateway does not answer.").waitFor();
    await heading(slow, "Models").waitFor();
    await until("the question that is answered", () => left < 0);
    await slow.close();
  });
}
