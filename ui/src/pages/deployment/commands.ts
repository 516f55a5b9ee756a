import type { Body } from "@/api/types";

/** Writes a word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./:@,+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const command = (...words: (string | false | undefined | null)[]) => words.filter(Boolean).join(" ");
const flag = (name: string, value: string | number | null | undefined) =>
  value ? `${name} ${quoted(String(value))}` : undefined;
/** Where nothing is typed yet. */
const dirOf = (dir: string | null | undefined) => (dir?.trim() ? quoted(dir.trim()) : "DIR");

/** The command that does the same as an export of the installation. */
export function exportCommand(body: Body<"exportDeployment">): string {
  return command(
    "gantry package export",
    dirOf(body.output_dir),
    body.tar_models && "--models",
    body.tar_hub_cache && "--hub-cache",
    body.include_images === false && "--no-images",
    body.include_db === false && "--no-database",
    body.include_configs === false && "--no-configs",
    body.include_models_manifest === false && "--no-manifests",
    body.include_env && "--env",
    body.allow_pull_images === false && "--no-pull",
    flag("--part-size", body.part_size),
    flag("--since", body.since),
  );
}

/** The command that does the same as the export of one model. */
export function exportModelCommand(model: string, body: Body<"exportModel">): string {
  return command(
    "gantry package export",
    dirOf(body.output_dir),
    `--model ${model ? quoted(model) : "NAME"}`,
    body.tar_hub_cache && "--hub-cache",
    body.include_images === false && "--no-images",
    body.tar_models === false && "--no-weights",
    body.include_env && "--env",
    body.allow_pull_images === false && "--no-pull",
    flag("--part-size", body.part_size),
    flag("--since", body.since),
  );
}

/** The command that does the same as an import. */
export function importCommand(body: Body<"importPackage">): string {
  const parts = [
    body.include_images !== false && "images",
    body.include_weights !== false && "weights",
    body.include_hub_cache !== false && "hub-cache",
    body.include_models !== false && "models",
  ].filter(Boolean);
  return command(
    "gantry package import",
    dirOf(body.output_dir),
    flag("--base", body.base_dir),
    parts.length < 4 && `--only ${parts.join(",")}`,
    body.replace_images && "--replace-images",
    body.dry_run && "--dry-run",
  );
}

/** The command that does the same as the import of one model. */
export function importModelCommand(body: Body<"importModel">): string {
  const without = body.include_images === false || body.include_weights === false;
  const parts = [
    body.include_images !== false && "images",
    body.include_weights !== false && "weights",
    "models",
  ].filter(Boolean);
  return command(
    "gantry package import",
    dirOf(body.output_dir),
    `--model ${quoted(body.manifest_file)}`,
    flag("--as", body.served_name_override),
    flag("--local-path", body.local_path_override),
    body.conflict_strategy === "rename" && "--rename",
    flag("--base", body.base_dir),
    without && `--only ${parts.join(",")}`,
    body.replace_images && "--replace-images",
  );
}

/** The command that does the same as a restore. */
export function restoreCommand(body: Body<"restoreDatabase">, dryRun = false): string {
  return command(
    "gantry package restore",
    dirOf(body.output_dir),
    flag("--file", body.db_file),
    flag("--base", body.base_dir),
    !dryRun && body.drop_existing && "--drop-existing",
    !dryRun && body.backup_first === false && "--no-backup",
    dryRun && "--dry-run",
  );
}
