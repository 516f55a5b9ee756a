import { render } from "@testing-library/react";
import { Lexer } from "marked";
import { describe, expect, it } from "vitest";
import { Blocks } from "./blocks";
import { closeMarks } from "./close-marks";
import { groupsOf } from "./code";
import { runsOf } from "./highlight";
import { safeAddress } from "./inline";
import { Markdown } from "./markdown";

const TEXT = `# Title

Some *text* with **bold**, \`code\` and a [link](https://example.org/).
It goes on
===

- one
- two

  with a paragraph

- three
  1. inner
  2. second

> a quote
goes on

| a | b |
|---|--:|
| 1 | 2 |

\`\`\`rust
fn main() {
    println!("**no**");

}
\`\`\`

    indented

<b>html</b>

***
end`;

const shape = (tokens: { type: string; raw: string }[]) =>
  tokens.filter((it) => it.type !== "space").map((it) => [it.type, it.raw.trim()]);

describe("a text that grows", () => {
  it("has the same blocks in the end as one that was there at once, however it came", () => {
    const whole = shape(new Lexer({ gfm: true }).lex(TEXT));
    for (const step of [1, 2, 3, 7, 50]) {
      const blocks = new Blocks();
      for (let to = step; to < TEXT.length; to += step) blocks.read(TEXT.slice(0, to), true);
      expect(shape(blocks.read(TEXT, false))).toEqual(whole);
    }
  });

  it("keeps what is complete as the same objects", () => {
    const blocks = new Blocks();
    const first = blocks.read("one\n\ntwo\n\nthr", true)[0];
    expect(blocks.read("one\n\ntwo\n\nthree and more", true)[0]).toBe(first);
  });

  it("begins anew when another text comes", () => {
    const blocks = new Blocks();
    blocks.read("one\n\ntwo\n\nthree", true);
    expect(shape(blocks.read("else", false))).toEqual([["paragraph", "else"]]);
  });

  it("takes line ends of other systems", () => {
    const blocks = new Blocks();
    expect(shape(blocks.read("one\r\n\r\ntwo\r\n\r\nthree", false))).toHaveLength(3);
  });
});

describe("marks that are still open", () => {
  it.each([
    ["a **bol", "a **bol**"],
    ["a *b", "a *b*"],
    ["a ~~b", "a ~~b~~"],
    ["a `co", "a `co`"],
    ["a **b *c", "a **b *c***"],
    ["a **b** c", "a **b** c"],
    ["a [li", "a li"],
    ["a [link](https://exa", "a link"],
    ["a **", "a "],
    ["- one\n- two", "- one\n- two"],
    ["* one", "* one"],
    ["2 * 3", "2 * 3"],
    ["snake_case", "snake_case"],
    ["```js\na ** b", "```js\na ** b"],
    ["`**`", "`**`"],
  ])("%j is shown as %j", (open, closed) => expect(closeMarks(open)).toBe(closed));
});

describe("hostile text", () => {
  const hostile = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a <b onclick=alert(1)>b</b>",
    "[x](javascript:alert(1))",
    "[x](  JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](//evil.example)",
    "![x](https://evil.example/track.png)",
    "<https://ok.example/> <javascript:alert(1)>",
    "```html\n<script>alert(1)</script>\n```",
  ].join("\n\n");

  it("makes no element but those of markdown, loads nothing, and leads nowhere dangerous", () => {
    for (const growing of [true, false]) {
      const { container } = render(<Markdown text={hostile} growing={growing} />);
      expect(container.querySelector("script, img, iframe, object, b, [onclick], [onerror]")).toBeNull();
      const links = [...container.querySelectorAll("a")];
      for (const link of links) {
        expect(link.protocol).toMatch(/^https?:$/);
        expect(link.rel).toContain("noopener");
        expect(link.rel).toContain("noreferrer");
      }
      expect(links.map((it) => it.href)).toContain("https://ok.example/");
      expect(container.textContent).toContain("<script>alert(1)</script>");
    }
  });

  it("knows which addresses may be followed", () => {
    expect(safeAddress("https://example.org/a b")).toBe("https://example.org/a%20b");
    expect(safeAddress("mailto:a@example.org")).toBe("mailto:a@example.org");
    for (const bad of ["javascript:0", "data:text/html,x", "file:///etc", "/admin", "vbscript:x", "blob:x"])
      expect(safeAddress(bad)).toBeUndefined();
  });

  it("shows characters as they were written", () => {
    const { container } = render(<Markdown text={"a < b & c > d, &amp; \\*x\\* `<i>`"} />);
    expect(container.textContent).toBe("a < b & c > d, & *x* <i>");
  });
});

describe("code", () => {
  it("is divided by lines, and nothing of it is lost", () => {
    const text = Array.from({ length: 100 }, (_, at) => `line ${at}`).join("\n");
    expect(groupsOf(text)).toHaveLength(3);
    expect(groupsOf(text).join("\n")).toBe(text);
  });

  it("gets its colours without markup", () => {
    const runs = runsOf(
      '<span class="hljs-keyword">let</span> a = <span class="hljs-string">&quot;&lt;b&gt; &amp;amp;&quot;</span>',
    );
    expect(runs.map((it) => it.text).join("")).toBe('let a = "<b> &amp;"');
    expect(runs[0]?.style).toContain("busy");
  });
});

describe("a text that is made to break a page", () => {
  it.each([
    ["quotes", ">".repeat(5000)],
    ["brackets", "[".repeat(5000)],
    ["stars", `${"*".repeat(5000)}a`],
    ["lists", Array.from({ length: 300 }, (_, at) => `${"  ".repeat(at)}- a`).join("\n")],
    ["columns", `${"|a".repeat(2000)}|\n${"|-".repeat(2000)}|\n${"|b".repeat(2000)}|`],
  ])("is shown with all that stands around it: %s", (_, hostile) => {
    const { container } = render(<Markdown text={`# Before\n\n${hostile}\n\n**after**`} />);
    expect(container.querySelector("h3")?.textContent).toBe("Before");
    expect(container.querySelector("strong")?.textContent).toBe("after");
  });

  it("is shown in the same way while it comes", () => {
    const { container } = render(<Markdown text={`# Before\n\n${">".repeat(5000)}`} growing />);
    expect(container.querySelector("h3")?.textContent).toBe("Before");
  });
});

it("shows line breaks and characters as they are meant", () => {
  const { container } = render(<Markdown text={"one<br>two<br/>&eacute;&#8364;&#x41;&nope; <b>x</b>"} />);
  expect(container.querySelectorAll("br")).toHaveLength(2);
  expect(container.textContent).toBe("onetwoé€A&nope; <b>x</b>");
});
