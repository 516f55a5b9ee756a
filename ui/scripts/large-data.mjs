// A gateway with as much data as a large house has after a month: for large.mjs. The rows of usage are written by the store's
// example `usage_fill` (USAGE_FILL is the program), keys and the audit log by the ways that are quick enough.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { writeGguf } from "../../tests/browser/gguf.mjs";
import { startGateway, until } from "../../tests/browser/harness.mjs";

const ROWS = Number(process.env.ROWS ?? 10_000_000);
const KEYS = Number(process.env.KEYS ?? 400_000);
/** Few: with so many keys, each change of the catalog takes about a second. */
const CHANGES = 60;
const DAYS = 30;
const ORGS = 20;
const USERS = 100;
/** `usage_fill` has a user of the name that the harness gives its owner. */
export const OWNER = "the-owner";

/** Starts it. Returns the gateway, its API as its owner, the name of a model that runs, and the token of a key. */
export async function largeGateway() {
  const gateway = await startGateway({
    settings: { ADMIN_BOOTSTRAP_USERNAME: OWNER },
    engine: "--sim-ttft-ms 5",
  });
  // The owner is made in the database that `usage_fill` has made, and not before.
  await gateway.kill();
  const database = join(gateway.dir, "data/gantry.db");
  for (const it of ["", "-wal", "-shm"]) rmSync(`${database}${it}`, { force: true });
  const counts = [ROWS, DAYS, ORGS, USERS].map(String);
  execFileSync(process.env.USAGE_FILL, [`sqlite://${database}`, ...counts], { stdio: "ignore" });
  execFileSync("sqlite3", [
    database,
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${KEYS - 2 * USERS})
    INSERT INTO api_keys (prefix, token_hash, org_id, user_id, name, name_lower, scopes, ip_allowlist, created_at)
    SELECT printf('gty_%08x', i), randomblob(32), users.org_id, users.id, 'key ' || i, 'key ' || i, 'chat', '',
      1700000000000 + i * 1000 FROM n JOIN users ON users.id = 1 + i % ${USERS}`,
  ]);
  await gateway.start();
  const api = await gateway.as(OWNER);
  writeGguf(join(gateway.models, "tiny-llama.gguf"), { name: "tiny-llama" });
  const model = await api("POST", "/admin/models", {
    served_name: "tiny-llama",
    engine_type: "llamacpp",
    local_path: "tiny-llama.gguf",
    force: true,
  });
  await api("POST", `/admin/models/${model.id}/start`, {});
  await until(
    "the start",
    async () => (await api("GET", `/admin/models/${model.id}`)).state === "running",
    60_000,
  );
  const org = await api("POST", "/admin/orgs", { name: "Audited" });
  for (let at = 0; at < CHANGES; at += 1)
    await api("PATCH", `/admin/orgs/${org.id}`, { name: `Audited ${at}` });
  const key = await api("POST", "/admin/keys", { org_id: org.id, name: "load" });
  return {
    gateway,
    api,
    model: model.served_name,
    token: key.token ?? key.key,
    counts: { keys: KEYS, usage_rows: ROWS, audit_rows: CHANGES },
  };
}
