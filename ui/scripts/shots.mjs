// What screenshots.mjs takes pictures of: the name of the picture, the address, what is done there before, and faults that are meant.

const press = (name) => (page) => page.getByRole("button", { name }).first().click();
const menu = (name, item) => async (page) => {
  await page.getByRole("button", { name }).first().click();
  await page.getByRole("menuitem", { name: item }).click();
};
const inDialog = (open) => async (page) => {
  await open(page);
  await page.getByRole("dialog").last().waitFor();
};
/** Opens the drawer of a thing, and presses a button there. */
const inDrawer = (name, button) =>
  inDialog(async (page) => {
    await press(name)(page);
    await page.getByRole("dialog").getByRole("button", { name: button, exact: true }).click();
  });
/** Has the page see other answers than the gateway's, and loads it again. */
const seeing = (address, change) => async (page) => {
  await page.route(address, async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: change(await answer.json()) });
  });
  await page.reload();
  await page.getByRole("heading", { level: 1 }).first().waitFor();
};
const question = (page) => page.getByRole("textbox", { name: "Question", exact: true });
const ask = async (page, text) => {
  await question(page).fill(text);
  await question(page).press("Enter");
};
/** An export that is in its middle: the one that has ended is shown as it was then. */
const running = seeing(/\/admin\/deployment\/jobs(\?|$)/, ([job, ...others]) => [
  {
    ...job,
    status: "running",
    step: "Copying weights: support/support-q8_0.gguf",
    progress: 0.42,
    finished_at: null,
    estimated_size_bytes: 48_318_382_080,
    bytes_written: 20_293_720_473,
    eta_seconds: 312,
    logs: [...job.logs.slice(0, 3), "Copying weights: support/support-q8_0.gguf"],
  },
  ...others,
]);

/** Makes something in a dialog that shows a secret afterwards. */
const making = (name, button) => async (page) => {
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill(name);
  await dialog.getByRole("button", { name: button, exact: true }).click();
  await dialog.getByRole("button", { name: "I have saved it" }).waitFor();
};
/** Has the page believe that engines run in containers, which these pictures are made without. */
const withDocker = seeing(/\/readyz(\?|$)/, (ready) => ({ ...ready, runtime: "docker" }));

/** What an owner sees. */
export const owner = (life) => {
  const model = `/models/${life.running.id}`;
  const failed = `/models/${life.failed.id}`;
  const adapted = `/models/${life.adapted.id}`;
  const tabs = ["overview", "configuration", "logs", "metrics", "test", "timeline"];
  return [
    ["overview", "/"],
    ["models", "/models"],
    ["models-filtered-to-nothing", "/models?q=nothing-has-this-name"],
    ["models-selected", "/models", (page) => page.getByRole("checkbox", { name: /^Select all/ }).check()],
    ["models-stop", "/models", inDialog(press(`Stop: ${life.running.served_name}`))],
    ["models-entry-add", "/models", inDialog(press("Add an engine elsewhere"))],
    ["models-entry", "/models", press("Details of elsewhere/large")],
    ["models-entry-remove", "/models", inDialog(press("Remove: elsewhere/large"))],
    ["deploy", "/models/new"],
    [
      "deploy-checked",
      "/models/new",
      async (page) => {
        await page
          .getByRole("list", { name: "In the models folder" })
          .getByRole("button", { name: /tiny-other/ })
          .click();
        await page.getByRole("textbox", { name: "Served name" }).fill("another");
        await page.getByText("Nothing speaks against a start.").waitFor();
      },
    ],
    [
      "deploy-beside",
      "/models/new?pick=support",
      async (page) => page.getByText("polite-lora.gguf").first().waitFor(),
    ],
    [
      "deploy-all",
      "/models/new?pick=tiny-other.gguf",
      async (page) => page.getByRole("radio", { name: "All", exact: true }).check(),
    ],
    ...tabs.map((tab) => [`model-${tab}`, `${model}?tab=${tab}`]),
    [
      "model-configuration-changed",
      `${model}?tab=configuration`,
      async (page) => {
        await page.getByRole("textbox", { name: /context_size/ }).fill("4096");
        await page.waitForTimeout(600);
      },
    ],
    [
      "model-apply",
      `${model}?tab=configuration`,
      inDialog(async (page) => {
        await page.getByRole("textbox", { name: /context_size/ }).fill("4096");
        await page.getByRole("button", { name: "Save and apply" }).click();
      }),
    ],
    [
      "model-tested",
      `${model}?tab=test`,
      async (page) => {
        await press("Send a test request")(page);
        await page.getByText("The engine answered").waitFor();
      },
    ],
    ["model-stop", model, inDialog(press("Stop"))],
    ["model-restart", model, inDialog(press("Restart"))],
    ["model-menu", model, async (page) => page.getByRole("button", { name: /^More/ }).click()],
    ["model-lora", `${adapted}?tab=lora`],
    ["model-stopped", adapted],
    ["model-failed", failed],
    ["model-failed-logs", `${failed}?tab=logs`],
    ["model-delete", failed, inDialog(menu(/^More/, "Delete"))],
    ["model-archive", failed, inDialog(menu(/^More/, "Archive"))],
    ["model-gone", "/models/999999", undefined, [/^404 /]],
    ["playground", "/playground"],
    ["playground-chat", `/playground/${life.chat.id}`],
    ["playground-parameters", "/playground", press("Parameters")],
    ["playground-copy", `/playground/${life.chat.id}`, inDialog(press("Copy the conversation"))],
    ["playground-chats", `/playground/${life.chat.id}?panel=chats`],
    [
      "playground-answered",
      "/playground",
      async (page) => {
        await ask(page, "What does a trolley do?");
        await page.getByText(/TTFT/).first().waitFor();
      },
    ],
    [
      "playground-compare",
      "/playground",
      async (page) => {
        await press("Compare with another model")(page);
        await ask(page, "What does a hoist do?");
        await page.getByText(/TTFT/).nth(1).waitFor();
      },
    ],
    [
      "playground-pasted",
      "/playground",
      async (page) => {
        await page.evaluate((text) => navigator.clipboard.writeText(text), "A line of a log.\n".repeat(2000));
        await question(page).press("Control+V");
        await page.getByText(/^Pasted text/).waitFor();
      },
    ],
    ["playground-delete", `/playground/${life.chat.id}`, inDialog(press("Delete all chats"))],
    ["playground-embedding", "/playground?tab=embedding"],
    ["playground-rerank", "/playground?tab=rerank"],
    ["usage", "/usage"],
    ["usage-empty", "/usage?model=nothing-has-this-name"],
    ["usage-request", "/usage", inDialog(press(/^Open the request/))],
    ["usage-csv", "/usage", inDialog(press("Download CSV"))],
    ["usage-range", "/usage", press("Last 24 hours")],
    ["keys", "/keys"],
    ["keys-create", "/keys?dialog=create", inDialog(async () => {})],
    ["keys-created", "/keys?dialog=create", making("a new key", "Create key")],
    ["keys-key", "/keys", inDialog(press("Open the key laptop"))],
    ["keys-edit", "/keys", inDrawer("Open the key laptop", "Edit")],
    ["keys-revoke", "/keys", inDrawer("Open the key laptop", "Revoke")],
    ["users", "/users"],
    ["users-create", "/users", inDialog(press("Create user"))],
    ["users-user", "/users", inDialog(press("Open the user ada"))],
    ["users-edit", "/users", inDrawer("Open the user the-user", "Edit")],
    ["users-delete", "/users", inDrawer("Open the user the-user", "Delete")],
    ["organisations", "/organisations"],
    ["organisations-create", "/organisations", inDialog(press("Create organisation"))],
    ["organisations-one", "/organisations", inDialog(press("Open the organisation Acme"))],
    ["organisations-edit", "/organisations", inDrawer("Open the organisation Acme", "Edit")],
    ["organisations-delete", "/organisations", inDrawer("Open the organisation Acme", "Delete")],
    ["organisations-disable", "/organisations", inDrawer("Open the organisation Acme", "Disable")],
    ["audit", "/audit"],
    ["audit-row", "/audit", inDialog(press("ada created a user"))],
    [
      "audit-broken",
      "/audit",
      seeing(/\/admin\/audit(\?|$)/, (rows) =>
        rows.map((it, at) => (at === 4 ? { ...it, prev_hash: "0".repeat(64) } : it)),
      ),
    ],
    ["system", "/system"],
    ["system-upstream", "/system", press("Details of tiny-llama")],
    ["images", "/images"],
    ["images-docker", "/images", withDocker],
    [
      "images-load",
      "/images",
      inDialog(async (page) => {
        await withDocker(page);
        await press("Load images from a file")(page);
      }),
    ],
    ["deployment-jobs", "/deployment"],
    [
      "deployment-job",
      "/deployment",
      async (page) => page.getByRole("table").getByRole("button", { name: "Export" }).click(),
    ],
    ["deployment-running", "/deployment", running],
    [
      "deployment-cancel",
      "/deployment",
      inDialog(async (page) => {
        await running(page);
        await page.getByRole("button", { name: "Cancel job" }).click();
      }),
    ],
    ["deployment-export", "/deployment?tab=export&dir=second"],
    ["deployment-import", "/deployment?tab=import&dir=first", press("Check the package")],
    [
      "deployment-import-model",
      "/deployment?tab=import&dir=first",
      inDialog(async (page) => {
        await page.getByRole("button", { name: "Import this model" }).first().click();
        await page.getByRole("dialog").getByLabel("Served name").fill("support-again");
        await page.getByRole("dialog").getByRole("button", { name: "Check", exact: true }).click();
        await page.getByText("This can be imported.").waitFor();
      }),
    ],
    ["deployment-restore", "/deployment?tab=restore&dir=first"],
    [
      "deployment-restore-confirm",
      "/deployment?tab=restore&dir=first",
      inDialog(async (page) => {
        await press("Check the dump")(page);
        await page.getByLabel("Replace what is in the database").check();
        await page.getByRole("button", { name: "Restore", exact: true }).click();
      }),
    ],
    ["settings", "/settings"],
    ["settings-one", "/settings?q=METRICS_LISTEN", press(/^How to change METRICS_LISTEN/)],
    ["settings-folder", "/settings", inDialog(press(/^Change/))],
    ["api-reference", "/api-reference"],
    ["api-reference-operation", "/api-reference?op=listModels"],
    ["profile", "/profile"],
    ["profile-token", "/profile?dialog=create-token", inDialog(async () => {})],
    ["not-found", "/no/such/page"],
    ["command-menu", "/", inDialog((page) => page.keyboard.press("Control+k"))],
    ["shortcuts", "/", inDialog((page) => page.keyboard.press("?"))],
    [
      "account-menu",
      "/",
      async (page) =>
        page
          .getByRole("navigation", { name: "Main navigation" })
          .getByRole("button", { name: /ada/ })
          .click(),
    ],
  ];
};

/** Models on their way: one that starts, one whose new settings were rolled back, one that is started against its files. */
export const onTheWay = (of) => [
  ["models-start", "/models", (page) => page.getByRole("region", { name: /^Start of / }).waitFor()],
  [
    "model-start",
    `/models/${of.slow.id}`,
    (page) => page.getByRole("region", { name: /^Start of / }).waitFor(),
  ],
  ["model-rolled-back", `/models/${of.back.id}`],
  ["model-force-start", `/models/${of.other.id}`, inDialog(press("Start")), [/^409 /]],
];

/** What somebody with two GPUs sees. */
export const onGpus = (of) => {
  const fits = (page) => page.getByText("Nothing speaks against a start.").waitFor();
  const tooLarge = async (page) => {
    await fits(page);
    await page.getByRole("textbox", { name: /^Context\b(?!_)/ }).fill("1048576");
    await page.getByRole("radio", { name: "All", exact: true }).check();
    await page.getByRole("textbox", { name: "ngl" }).fill("24");
    await page.getByRole("radio", { name: "Simple", exact: true }).check();
    await page.getByText("1 reason against a start").waitFor();
  };
  const form = "/models/new?pick=family&file=family%2Fchat-1b-f32.gguf";
  return [
    ["gpus-overview", "/"],
    ["gpus-system", "/system", press("2 processes")],
    ["gpus-model", `/models/${of.holder.id}`],
    ["gpus-sources", "/models/new"],
    ["deploy-memory", form, fits],
    ["deploy-too-large", form, tooLarge],
    [
      "deploy-start-anyway",
      form,
      inDialog(async (page) => {
        await tooLarge(page);
        await page.getByRole("button", { name: "Save and start anyway" }).click();
      }),
    ],
    [
      "deploy-hub",
      `/models/new?repo=${of.hub.repository}`,
      (page) => page.getByText("Qwen2ForCausalLM").first().waitFor(),
    ],
  ];
};

const EVERYBODY = ["/", "/playground", "/usage", "/keys", "/profile", "/api-reference"];
const ORG = [...EVERYBODY, "/users", "/organisations"];
const ADMIN = [
  ...ORG,
  "/models",
  "/audit",
  "/system",
  "/images",
  "/deployment?tab=import&dir=first",
  "/settings",
];
const nameOf = (path) => path.slice(1).split("?")[0] || "overview";
const pagesOf = (role, paths) => paths.map((path) => [`${role}-${nameOf(path)}`, path]);

/** What the other roles see, by the name of somebody who has it. */
export const ofRoles = () => ({
  "the-user": [
    ...pagesOf("as-user", EVERYBODY),
    ["as-user-keys-create", "/keys?dialog=create", inDialog(async () => {})],
    ["as-user-not-allowed", "/models"],
  ],
  "the-org_admin": [
    ...pagesOf("as-org-admin", ORG),
    ["as-org-admin-user", "/users", inDialog(press("Open the user the-user"))],
    ["as-org-admin-organisation", "/organisations", inDialog(press("Open the organisation Acme"))],
  ],
  "the-admin": [
    ...pagesOf("as-admin", ADMIN),
    ["as-admin-user", "/users", inDialog(press("Open the user ada"))],
  ],
});

/** Every page in German, and what an address alone opens there. */
export const GERMAN = (life) => {
  const tabs = ["configuration", "logs", "metrics", "test", "timeline"];
  return [
    ...pagesOf("german", [
      "/",
      "/models",
      "/playground",
      "/usage",
      "/keys",
      "/users",
      "/organisations",
      "/audit",
      "/system",
    ]),
    ...pagesOf("german", ["/images", "/deployment", "/settings", "/api-reference?op=listModels", "/profile"]),
    ["german-deploy", "/models/new"],
    ["german-deploy-form", "/models/new?pick=support"],
    ["german-model", `/models/${life.running.id}`],
    ["german-model-failed", `/models/${life.failed.id}`],
    ...tabs.map((tab) => [`german-model-${tab}`, `/models/${life.running.id}?tab=${tab}`]),
    ["german-model-lora", `/models/${life.adapted.id}?tab=lora`],
    ["german-playground-chat", `/playground/${life.chat.id}?panel=parameters`],
    ["german-playground-embedding", "/playground?tab=embedding"],
    ["german-usage-filtered", `/usage?model=${life.running.served_name}`],
    ["german-keys-create", "/keys?dialog=create", inDialog(async () => {})],
    ["german-profile-token", "/profile?dialog=create-token", inDialog(async () => {})],
    ["german-deployment-export", "/deployment?tab=export&dir=second"],
    ["german-deployment-import", "/deployment?tab=import&dir=first"],
    ["german-deployment-restore", "/deployment?tab=restore&dir=first"],
    ["german-not-found", "/no/such/page"],
    ["german-shortcuts", "/", inDialog((page) => page.keyboard.press("?"))],
    ["german-command-menu", "/", inDialog((page) => page.keyboard.press("Control+k"))],
  ];
};

/** Pages with thousands of rows, on a gateway that has them. */
export const many = () => [
  ...pagesOf("many", ["/", "/models", "/usage", "/keys", "/organisations", "/system", "/images", "/audit"]),
  ["many-keys-last", "/keys?page=9999"],
];
