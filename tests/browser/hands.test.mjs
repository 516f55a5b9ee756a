// One way through the pages, from a file to an answer, out of a failure and to a package, walked twice: with the keyboard alone, and
// with fingers on a screen of 390 pixels. What can't be reached that way is a fault of the page.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "./gguf.mjs";
import { focused, heading, rail, startGateway, step, tabTo, until } from "./harness.mjs";

const NAME = "tiny-llama";
/** As many stops as the longest page may have. */
const STOPS = 250;

/** Hands on a keyboard. */
function keyboard(page) {
  const press = async (target) => {
    await tabTo(page, target, STOPS);
    await page.keyboard.press("Enter");
  };
  return {
    name: "keyboard",
    page,
    press,
    write: async (target, text) => {
      await tabTo(page, target, STOPS);
      await page.keyboard.press("Control+a");
      if (text === "") await page.keyboard.press("Delete");
      else await page.keyboard.type(text);
    },
    send: () => page.keyboard.press("Enter"),
    go: (name) => press(rail(page).getByRole("link", { name, exact: true })),
    tab: async (name) => {
      await tabTo(page, page.getByRole("tab", { selected: true }), STOPS);
      for (let at = 0; at < 10 && (await focused(page)).trim() !== name; at += 1) await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
    },
  };
}

/** Fingers on a telephone. */
function fingers(page) {
  const press = (target) => target.tap();
  return {
    name: "touch at 390 px",
    page,
    press,
    write: async (target, text) => {
      await target.tap();
      await target.fill(text);
    },
    send: () => press(page.getByRole("button", { name: "Send", exact: true })),
    go: async (name) => {
      await press(page.getByRole("button", { name: "Main navigation" }));
      await press(rail(page).getByRole("link", { name, exact: true }));
    },
    tab: (name) => press(page.getByRole("tab", { name, exact: true })),
  };
}

export default async function () {
  await walk({}, keyboard);
  await walk({ width: 390, touch: true }, fingers);
}

async function walk(screen, handsOn) {
  const gateway = await startGateway({ engine: "--sim-load-seconds 1" });
  writeGguf(join(gateway.models, `${NAME}.gguf`), { name: NAME });
  const api = await gateway.as();
  const page = await gateway.page({ as: "ada", ...screen });
  const { name, press, write, send, go, tab } = handsOn(page);
  const main = page.getByRole("main");
  const button = (label, on = page) => on.getByRole("button", { name: label, exact: true });
  const fits = async () => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${page.url()} is ${wide} px too wide`);
  };
  const walked = (what, steps) =>
    step(`${name}: ${what}`, async () => {
      await steps();
      await fits();
    });

  await walked("a model is deployed", async () => {
    await page.goto(`${gateway.ui}/`);
    await heading(page, "Overview").waitFor();
    await press(main.getByRole("link", { name: "Add a model" }).first());
    await press(page.getByRole("list", { name: "In the models folder" }).getByRole("button").first());
    await page.getByText("Nothing speaks against a start.").waitFor();
    await fits();
    await press(button("Save and start"));
    await heading(page, NAME).waitFor();
    await main.getByText("Running", { exact: true }).first().waitFor();
  });

  await walked("a key is made", async () => {
    await go("Keys");
    await heading(page, "Keys").waitFor();
    await press(button("Create key").first());
    const form = page.getByRole("dialog", { name: "Create a key" });
    await write(form.getByLabel("Name", { exact: true }), "laptop");
    await press(button("Create key", form));
    const made = page.getByRole("dialog", { name: "The key is created" });
    await press(button("Copy the token", made));
    await until("the token", async () => (await page.evaluate(() => navigator.clipboard.readText())).startsWith("gty_"));
    await press(button("I have saved it", made));
    await made.waitFor({ state: "detached" });
    await page.getByText("laptop").first().waitFor();
  });

  await walked("a question is answered", async () => {
    await go("Playground");
    await write(page.getByRole("textbox", { name: "Question", exact: true }), "How does a gantry crane work?");
    await send();
    await page.getByRole("log", { name: "Conversation" }).getByText(/TTFT/).waitFor();
  });

  await walked("a failure is mended from its row", async () => {
    const record = { engine_type: "llamacpp", local_path: `${NAME}.gguf`, force: true };
    const greedy = await api("POST", "/admin/models", {
      ...record, served_name: "greedy", extra_args: ["--sim-crash-at-start", "--sim-crash-log", "oom"],
    });
    await api("POST", "/admin/models", { ...record, served_name: "broken", extra_args: ["--no-such-argument"] });
    await go("Models");
    await heading(page, "Models").waitFor();
    // A value that is known is used by one press; it ends no better here, as the simulator was told.
    await press(button("Start: greedy"));
    await page.getByRole("paragraph").filter({ hasText: /^GPU out of memory$/ }).first().waitFor();
    await fits();
    await press(button("Set context_size to 4096 and start"));
    await until("the change", async () => (await api("GET", `/admin/models/${greedy.id}`)).context_size === 4096);
    await press(button("Start: broken"));
    await press(page.getByRole("link", { name: "Change extra_args" }));
    await write(page.getByRole("textbox", { name: /extra_args/ }), "");
    await press(button("Save and apply"));
    await press(button("Apply", page.getByRole("dialog")));
    await main.getByText("Running", { exact: true }).first().waitFor();
  });

  await walked("a package is exported", async () => {
    await go("Export and import");
    await heading(page, "Export and import").waitFor();
    await tab("Export");
    await write(page.getByLabel("Package folder"), "first");
    await press(button("Export"));
    await page.getByRole("table").getByText("Completed", { exact: true }).first().waitFor();
    assert.ok(existsSync(join(gateway.packages, "first", "manifest.json")));
  });

  await page.close();
}
