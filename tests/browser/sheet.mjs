// The gateway of docs/web-ui-tasks.md: what an installation looks like in which a newcomer has five tasks to do. The test of
// the tasks walks through it, and `make ui-tasks` holds it open for a person.
import { writeGguf } from "./gguf.mjs";
import { endAll, PASSWORD, startGateway, until } from "./harness.mjs";

/** A file in the models folder that nothing serves yet, and what a start makes of its name. */
export const NEW = "tiny-llama";
/** A model that two people use. */
export const USED = "helper";
/** A model with an argument that its engine does not know. */
export const BROKEN = "writer";
/** Who used the model, and how many requests they sent. */
export const PEOPLE = { bert: 3, clara: 9 };

/** Starts it. The owner is `ada`. */
export async function startSheet() {
  const gateway = await startGateway({ engine: "--sim-load-seconds 1" });
  writeGguf(`${gateway.models}/${NEW}.gguf`, { name: NEW });
  writeGguf(`${gateway.models}/old-llama.gguf`, { name: "old-llama" });
  const api = await gateway.as();
  const model = async (served_name, more = {}) => {
    const { id } = await api("POST", "/admin/models", { served_name, engine_type: "llamacpp", local_path: "old-llama.gguf", force: true, ...more });
    await api("POST", `/admin/models/${id}/start`, {});
    return async (state) => (await api("GET", `/admin/models/${id}`)).state === state;
  };
  const used = await model(USED);
  const broken = await model(BROKEN, { extra_args: ["--no-such-argument"] });
  await until("the start", () => used("running"));
  await until("the failure", () => broken("failed"));
  const org = await api("POST", "/admin/orgs", { name: "Acme" });
  for (const [username, requests] of Object.entries(PEOPLE)) {
    const user = await api("POST", "/admin/users", { username, password: PASSWORD, role: "user", org_id: org.id });
    const { token } = await api("POST", "/admin/keys", { user_id: user.id, name: `laptop of ${username}` });
    for (let at = 0; at < requests; at += 1)
      await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ model: USED, stream: true, messages: [{ role: "user", content: `Question ${at}` }] }),
      }).then((answer) => answer.text());
  }
  return gateway;
}

if (process.argv[1] === import.meta.filename) {
  const gateway = await startSheet();
  console.log(`Address     ${gateway.url}/\nUser name   ada\nPassword    ${PASSWORD}\n\nCtrl-C ends the gateway and deletes all of it.`);
  await new Promise((done) => ["SIGINT", "SIGTERM"].forEach((it) => process.once(it, done)));
  await endAll();
}
