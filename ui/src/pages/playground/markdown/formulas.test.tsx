import { render, waitFor } from "@testing-library/react";
import { Lexer, type Token, type Tokens } from "marked";
import { describe, expect, it, vi } from "vitest";
import { Blocks } from "./blocks";
import { closeMarks } from "./close-marks";
import {
  countFormulas,
  type FormulaToken,
  isFormula,
  LONGEST_FORMULA,
  MOST_FORMULAS,
  optionsFor,
} from "./formulas";
import { Markdown } from "./markdown";
import { drawTex } from "./tex";

// When it is loaded, the library asks whether the page has a doctype, which happy-dom does not say.
vi.hoisted(() => Object.defineProperty(document, "compatMode", { value: "CSS1Compat" }));

const inside = (token: Token): Token[] => {
  const { tokens, items } = token as Tokens.Generic;
  return tokens ?? items ?? [];
};
const formulasOf = (tokens: Token[]): FormulaToken[] =>
  tokens.flatMap((it) => (isFormula(it) ? [it] : formulasOf(inside(it))));
const read = (text: string, growing = false) =>
  formulasOf(new Lexer(optionsFor(text, growing, MOST_FORMULAS)).lex(text));

describe("formulas in a text", () => {
  it.each([
    ["a $x^2$ b", ["x^2"]],
    ["$x$-axis, ($y$), 值$z$是", ["x", "y", "z"]],
    ["a \\(x_1 < y_2\\) b", ["x_1 < y_2"]],
    ["*where $x^*$ is* and $y^*$", ["x^*", "y^*"]],
    ["$a_1$ and $b_2$", ["a_1", "b_2"]],
    ["$\\$5 + x$", ["\\$5 + x"]],
    ["- one $x$\n- two\n\n  $$\n  y\n  $$", ["x", "y"]],
    ["> $x$", ["x"]],
    ["# $x$", ["x"]],
  ])("%j has %j", (text, found) => expect(read(text).map((it) => it.text)).toEqual(found));

  it.each([
    ["$$x$$", "x"],
    ["so\n$$\na\n- b\n+ c\n$$\nand", "a\n- b\n+ c"],
    ["\\[\nx \\\\[2pt]\ny\n\\]", "x \\\\[2pt]\ny"],
    ["so \\[x\\] and", "x"],
    ["```math\nx\n\ny\n```", "x\n\ny"],
  ])("%j stands on lines of its own", (text, found) =>
    expect(read(text).map((it) => [it.text, it.display])).toEqual([[found, true]]),
  );

  it.each([
    "It costs $5 and $6.",
    "$5-$10",
    "5$ or 6$",
    "US$5 and A$x$",
    "a \\$x$ b",
    "$ x$ and $x $",
    "use $HOME and $PATH",
    "`$x$` and ``\\(x\\)``",
    "$a `x$` b",
    "```sh\necho $a$ $$b$$\n```",
    "    $x$",
    "$$\n\n$$",
    "\\[ a\n\nb \\]",
    "\\(a \\[ b",
    `$${"x".repeat(LONGEST_FORMULA + 2)}$`,
    `\`\`\`math\n${"x".repeat(LONGEST_FORMULA + 2)}\n\`\`\``,
  ])("%j has none", (text) => expect(read(text)).toEqual([]));

  it("are read as such up to a number of them, also while the answer comes", () => {
    const many = `${"$x$ ".repeat(400)}\n\n`.repeat(3);
    expect(read(many)).toHaveLength(MOST_FORMULAS);
    const blocks = new Blocks();
    blocks.read(many.slice(0, many.length / 2), true);
    expect(formulasOf(blocks.read(many, false))).toHaveLength(MOST_FORMULAS);
  });

  it("are counted in all that can hold them", () => {
    const text = "# $a$\n\n> $b$\n\n- **$c$**\n\n| $d$ | e |\n|---|---|\n| f | $g$ |\n\n$$h$$";
    expect(countFormulas(new Lexer(optionsFor(text, false, MOST_FORMULAS)).lex(text))).toBe(6);
  });
});

describe("formulas that are still written", () => {
  const TEXT = [
    "First $a_1$ and\n$$\nx\n- y\n= z\n$$\nthen \\(b^*\\) **bold $c$**.",
    "- one\n- $d$",
    "\\[\n> e\n\\]",
    "```math\nf\n```",
    "Last\n$$g$$ and\n\\[h\\]",
    "end",
  ].join("\n\n");
  const shape = (tokens: Token[]) =>
    tokens.filter((it) => it.type !== "space").map((it) => [it.type, it.raw.trim()]);

  it("are the same in the end as those that were there at once, however they came", () => {
    const whole = shape(new Blocks().read(TEXT, false));
    for (const step of [1, 2, 3, 7, 50]) {
      const blocks = new Blocks();
      for (let to = step; to < TEXT.length; to += step) blocks.read(TEXT.slice(0, to), true);
      expect(shape(blocks.read(TEXT, false))).toEqual(whole);
    }
  });

  it("are text until they are complete", () => {
    const blocks = new Blocks();
    expect(shape(blocks.read("$$\na\n- b", true))).toEqual([["text", "$$\na\n- b"]]);
    expect(shape(blocks.read("$$\na\n- b\n$$", true))).toEqual([["formula", "$$\na\n- b\n$$"]]);
  });

  it.each([
    ["a $x^*$ b", "a $x^*$ b"],
    ["**a $x^*$ b", "**a $x^*$ b**"],
    ["**a** \\(x^*", "**a** \\(x^*"],
    ["a \\[ x", "a \\[ x"],
    ["a $x_{", "a $x_{"],
    ["**$5 and", "**$5 and**"],
  ])("%j is shown as %j", (open, closed) => expect(closeMarks(open)).toBe(closed));
});

// It comes before the tests that load what draws.
it("shows the source until what draws is here, and where the formula is wrong, with the reason", async () => {
  const { container } = render(<Markdown text={"a $x^2$ b $\\frac{1}{$ c, all for $5"} />);
  expect([...container.querySelectorAll("code")].map((it) => it.textContent)).toEqual(["x^2", "\\frac{1}{"]);
  await waitFor(() => expect(container.querySelector("math")).not.toBeNull(), { timeout: 60_000 });
  const source = container.querySelector("code");
  expect(source?.textContent).toBe("\\frac{1}{");
  expect(source?.title).toMatch(/^The formula has an error: /);
  expect(container.textContent).toContain("all for $5");
});

describe("a text that is made to break a page", () => {
  it.each([
    ["dollars", "$".repeat(5000)],
    ["dollars and spaces", "$ ".repeat(5000)],
    ["dollars and letters", "$a ".repeat(5000)],
    ["brackets", "\\(".repeat(5000)],
    ["lines", "$$\n".repeat(5000)],
    ["formulas", "$$a$$ b\n".repeat(1500)],
    ["fences", "```math\n".repeat(5000)],
    ["quotes", `${"> ".repeat(500)}$x$`],
  ])("is shown with all that stands before it: %s", (_, hostile) => {
    for (const growing of [true, false]) {
      const { container } = render(<Markdown text={`# Before\n\n${hostile}`} growing={growing} />);
      expect(container.querySelector("h3")?.textContent).toBe("Before");
    }
  });

  it.each([
    ["\\def\\a{\\a\\a}\\a"],
    ["\\newcommand{\\a}{b}\\a"],
    [`${"\\sqrt{".repeat(500)}x${"}".repeat(500)}`],
  ])("is a formula that is too much: %s", (tex) => expect(drawTex(tex, false)).toEqual({}));

  it.each([
    ["\\frac{1}{"],
    ["\\nothing"],
    ["\\href{javascript:alert(1)}{x}"],
    ["\\includegraphics{https://evil.example/track.png}"],
    ["\\class{fixed}{x}"],
    ["\\id{root}{x}"],
    ["\\style{position:fixed}{x}"],
    ["\\data{a=b}{x}"],
  ])("is a formula with an error: %s", (tex) => {
    const { node, wrong } = drawTex(tex, false);
    expect(node).toBeUndefined();
    expect(wrong).toBeTruthy();
  });

  it("has no rule that fills the page, in a colour other than the text's", () => {
    const rule = drawTex("\\rule{1000em}{1000em}", false).node?.querySelector("mspace");
    expect(rule?.getAttribute("width")).toBe("10em");
    expect(rule?.getAttribute("height")).toBe("10em");
    expect(rule?.getAttribute("mathbackground")).toBe("currentColor");
  });

  it("is never HTML", () => {
    const { node } = drawTex("\\text{<img src=x onerror=alert(1)>}", false);
    expect(node?.querySelector("img")).toBeNull();
    expect(node?.textContent).toContain("<img");
  });
});
