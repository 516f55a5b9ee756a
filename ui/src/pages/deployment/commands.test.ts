import { expect, it } from "vitest";
import { exportCommand, importCommand, importModelCommand, quoted, restoreCommand } from "./commands";

it("writes the command of an export, without what is the default", () => {
  expect(exportCommand({ output_dir: "2026-11-23" })).toBe("gantry package export 2026-11-23");
  expect(
    exportCommand({
      output_dir: "a b",
      include_db: false,
      tar_models: true,
      part_size: 4_194_304,
      since: "x",
    }),
  ).toBe("gantry package export 'a b' --models --no-database --part-size 4194304 --since x");
  expect(exportCommand({ output_dir: " " })).toBe("gantry package export DIR");
});

it("names the parts of an import only if some are left out", () => {
  expect(importCommand({ output_dir: "p" })).toBe("gantry package import p");
  expect(importCommand({ output_dir: "p", include_models: false, dry_run: true })).toBe(
    "gantry package import p --only images,weights,hub-cache --dry-run",
  );
  expect(
    importModelCommand({ output_dir: "p", manifest_file: "model-1.json", conflict_strategy: "rename" }),
  ).toBe("gantry package import p --model model-1.json --rename");
});

it("writes a restore and its check", () => {
  const body = { output_dir: "p", drop_existing: true, backup_first: false };
  expect(restoreCommand(body)).toBe("gantry package restore p --drop-existing --no-backup");
  expect(restoreCommand(body, true)).toBe("gantry package restore p --dry-run");
  expect(restoreCommand({ ...body, base_dir: "first" }, true)).toBe(
    "gantry package restore p --base first --dry-run",
  );
});

it("quotes what a shell would take apart", () => {
  expect(quoted("it's; rm -rf $HOME")).toBe(`'it'\\''s; rm -rf $HOME'`);
});
