import { expect, it } from "vitest";
import type { Plan } from "@/data/deployment";
import { makeFormat } from "@/i18n/format";
import { en } from "./en";
import { planLines } from "./plan";

const plan: Plan = {
  load_images: ["a", "b"],
  replaced_images: ["b"],
  present_images: ["c"],
  missing_images: ["d"],
  new_files: 2,
  new_bytes: 4096,
  present_files: 0,
  conflicting_files: ["models/x.gguf"],
  available_bytes: 1024,
  problems: [],
};

it("puts what is in the way first and what stays last", () => {
  const lines = planLines({ plan, newModels: ["m"], presentModels: ["n"] }, en.diff, makeFormat("en"));
  expect(lines.map((it) => `${it.mark} ${it.kind} ${it.what}`)).toEqual([
    "conflict files models/x.gguf",
    "missing image d",
    "new model m",
    "new image a",
    "new image b",
    "new files 2 files, 4\u202fKiB",
    "same model n",
    "same image c",
  ]);
  expect(lines[4]?.note).toBe(en.diff.replaced);
  expect(lines[5]?.note).toContain("Too little room");
});
