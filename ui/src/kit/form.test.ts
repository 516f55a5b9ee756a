import { expect, it } from "vitest";
import { ApiError } from "@/api/errors";
import { formErrors } from "./form";

const error = (...params: string[]) =>
  new ApiError(422, { fields: params.map((param) => ({ param, message: `${param} is wrong` })) });

it("puts errors on their fields, nested ones on the field that holds them", () => {
  const errors = formErrors(error("name", "lora_adapters[0].path"), ["name", "lora_adapters"]);
  expect(errors.of("name")).toBe("Name is wrong");
  expect(errors.of("lora_adapters")).toBe("lora_adapters[0].path is wrong");
  expect(errors.rest).toBeUndefined();
});

it("leaves what has no field to the form", () => {
  const bad = error("name", "elsewhere");
  expect(formErrors(bad, ["name"]).rest).toBe(bad);
  expect(formErrors(new Error("x"), ["name"]).rest).toBeInstanceOf(Error);
  expect(formErrors(null, ["name"]).rest).toBeUndefined();
});
