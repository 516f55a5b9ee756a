import { fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import { expect, it, vi } from "vitest";
import { Combobox, type ComboboxProps } from "./combobox";

const OPTIONS = ["qwen", "gemma", "gemma-large"].map((value) => ({ value, label: value }));

function Held({ chosen, ...props }: Partial<ComboboxProps> & { chosen: (to: string) => void }) {
  const [value, setValue] = useState("qwen");
  const set = (to: string) => {
    setValue(to);
    chosen(to);
  };
  return <Combobox aria-label="Model" options={OPTIONS} {...props} value={value} onValue={set} />;
}

it("finds by typing, and chooses with the keyboard", () => {
  const chosen = vi.fn();
  render(<Held chosen={chosen} />);
  const input = screen.getByRole<HTMLInputElement>("combobox", { name: "Model" });
  fireEvent.change(input, { target: { value: "gem" } });
  expect(screen.getAllByRole("option").map((it) => it.textContent)).toEqual(["gemma", "gemma-large"]);
  fireEvent.keyDown(input, { key: "ArrowDown" });
  fireEvent.keyDown(input, { key: "Enter" });
  expect(chosen).toHaveBeenCalledWith("gemma-large");
  expect(input.value).toBe("gemma-large");
});

it("keeps its value if what was typed is nothing, and takes it where any text may be chosen", () => {
  const chosen = vi.fn();
  const { unmount } = render(<Held chosen={chosen} />);
  const type = (text: string) => {
    const input = screen.getByRole<HTMLInputElement>("combobox");
    fireEvent.change(input, { target: { value: text } });
    fireEvent.blur(input);
    return input;
  };
  expect(type("nobody").value).toBe("qwen");
  expect(chosen).not.toHaveBeenCalled();
  unmount();
  render(<Held chosen={chosen} free />);
  expect(type("own/path.gguf").value).toBe("own/path.gguf");
});

it("does not say that nothing is found while the options are on their way", () => {
  const { rerender } = render(<Held chosen={vi.fn()} options={[]} loading />);
  fireEvent.click(screen.getByRole("combobox"));
  expect(screen.getByText("Loading …")).toBeTruthy();
  rerender(<Held chosen={vi.fn()} options={[]} />);
  expect(screen.getByText("Nothing matches.")).toBeTruthy();
});
