import type { PackagePlan, Plan } from "@/data/deployment";
import type { Format } from "@/i18n/format";
import type { en } from "./en";

export type Mark = keyof (typeof en)["diff"]["mark"];
export type Line = { mark: Mark; kind: keyof (typeof en)["diff"]["kind"]; what: string; note?: string };

const ORDER: Mark[] = ["conflict", "missing", "new", "warn", "same"];

type Given = { plan: Plan; newModels?: string[]; presentModels?: string[]; warnings?: string[] };

/** Returns whether an import would change nothing here. */
export const hasNothingNew = ({ plan, new_models }: PackagePlan): boolean =>
  new_models.length + plan.load_images.length + plan.new_files === 0;

/** Writes what an import would do as the lines of a diff: what is in the way first, what stays as it is last. */
export function planLines(given: Given, t: (typeof en)["diff"], format: Format): Line[] {
  const { plan, newModels = [], presentModels = [], warnings = [] } = given;
  const replaced = new Set(plan.replaced_images);
  const free = format.bytes(plan.available_bytes);
  const lines: Line[] = [
    ...plan.problems.map((what): Line => ({ mark: "missing", kind: "package", what })),
    ...plan.missing_images.map(
      (what): Line => ({ mark: "missing", kind: "image", what, note: t.missingImage }),
    ),
    ...plan.conflicting_files.map(
      (what): Line => ({ mark: "conflict", kind: "files", what, note: t.conflictFile }),
    ),
    ...newModels.map((what): Line => ({ mark: "new", kind: "model", what })),
    ...plan.load_images.map(
      (what): Line => ({
        mark: "new",
        kind: "image",
        what,
        note: replaced.has(what) ? t.replaced : undefined,
      }),
    ),
    ...presentModels.map((what): Line => ({ mark: "same", kind: "model", what, note: t.sameModel })),
    ...plan.present_images.map((what): Line => ({ mark: "same", kind: "image", what })),
    ...warnings.map((what): Line => ({ mark: "warn", kind: "package", what })),
  ];
  if (plan.new_files > 0)
    lines.push({
      mark: "new",
      kind: "files",
      what:
        plan.new_files === 1
          ? t.newFile(format.bytes(plan.new_bytes))
          : t.newFiles(format.integer(plan.new_files), format.bytes(plan.new_bytes)),
      note: plan.new_bytes > plan.available_bytes ? t.noRoom(free) : t.room(free),
    });
  if (plan.present_files > 0)
    lines.push({
      mark: "same",
      kind: "files",
      what: plan.present_files === 1 ? t.sameFile : t.sameFiles(format.integer(plan.present_files)),
      note: t.sameFilesNote,
    });
  return lines.sort((a, b) => ORDER.indexOf(a.mark) - ORDER.indexOf(b.mark));
}
