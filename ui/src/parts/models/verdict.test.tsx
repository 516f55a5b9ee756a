import { render } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Schema } from "@/api/types";
import { Verdict } from "./verdict";

type DryRun = Schema<"DryRun">;
const warning = (change: Partial<DryRun["warnings"][number]>) =>
  ({ severity: "error", category: "files", title: "It can't be loaded", message: "why", ...change }) as never;
const preview = (warnings: DryRun["warnings"]) =>
  ({
    command: ["llama-server", "--ctx-size", "8192"],
    vram_estimate: { fits: true, trained_for: 2048, max_context_that_fits: 2048, notes: [] },
    warnings,
  }) as unknown as DryRun;
const said = (warnings: DryRun["warnings"]) =>
  render(<Verdict preview={preview(warnings)} />).container.textContent;

it("says of a file that can't be loaded only that, whatever would fit", () => {
  expect(said([warning({})])).toBe("It can't be loaded");
  expect(said([warning({ category: "engine", field: "local_path" })])).toBe("It can't be loaded");
  // An image that is missing says nothing about the memory.
  const image = warning({ category: "image", title: "No image" });
  expect(said([image])).toBe("Fits with 2\u202fk context · No image");
});

it("fits with no more context than the model was trained for", () => {
  expect(said([])).toBe("Fits with 2\u202fk context");
});
