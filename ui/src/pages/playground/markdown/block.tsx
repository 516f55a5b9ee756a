import type { MarkedToken, Token, Tokens } from "marked";
import { Code } from "./code";
import { Formula } from "./formula";
import { isFormula } from "./formulas";
import { Inline } from "./inline";

/** Beyond this a single block is shown as plain text: no person wrote it as a paragraph. */
const LONGEST = 40_000;
/** Deeper blocks and larger tables are shown as text, as they were written. */
export const DEEPEST = 24;
const MOST_CELLS = 5000;

const SIZE: Record<number, string> = { 1: "text-xl", 2: "text-lg", 3: "text-base" };

/** One block of markdown: a paragraph, a list, a table, code. `open`: it is still being written. */
export function Block({
  token: given,
  open = false,
  depth = 0,
}: {
  token: Token;
  open?: boolean;
  depth?: number;
}) {
  if (isFormula(given)) return <Formula tex={given.text} display />;
  // The lexer's own type lets any other token in, which makes a switch of no use.
  const token = given as MarkedToken;
  if (token.type === "code") return <Code text={token.text} language={token.lang ?? ""} open={open} />;
  if (token.raw.length > LONGEST || depth > DEEPEST || isHuge(token))
    return <p className="whitespace-pre-wrap [overflow-wrap:anywhere]">{token.raw}</p>;
  switch (token.type) {
    case "heading":
      return (
        <h3 className={`pt-1 font-semibold ${SIZE[token.depth] ?? "text-base"}`}>
          <Inline tokens={token.tokens} />
        </h3>
      );
    case "paragraph":
      return (
        <p className="max-w-[80ch]">
          <Inline tokens={token.tokens} />
        </p>
      );
    case "text":
      return <Inline tokens={token.tokens ?? [token]} />;
    case "blockquote":
      return (
        <blockquote className="flex flex-col gap-2 border-line-strong border-l-2 pl-3 text-ink-2">
          <Inside tokens={token.tokens} depth={depth + 1} />
        </blockquote>
      );
    case "hr":
      return <hr className="border-line" />;
    case "list":
      return <List token={token} depth={depth} />;
    case "table":
      return <Table token={token} />;
    case "space":
    case "def":
      return null;
    default:
      // HTML, and whatever a later lexer may bring: its text, as it was written.
      return <p className="whitespace-pre-wrap">{token.raw.trimEnd()}</p>;
  }
}

function isHuge(token: MarkedToken): boolean {
  return token.type === "table" && token.header.length * (token.rows.length + 1) > MOST_CELLS;
}

/** The blocks inside of a block. */
function Inside({ tokens = [], depth }: { tokens?: Token[]; depth: number }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
  return tokens.map((token, index) => <Block key={index} token={token} depth={depth} />);
}

function List({ token, depth }: { token: Tokens.List; depth: number }) {
  const Tag = token.ordered ? "ol" : "ul";
  return (
    <Tag
      start={typeof token.start === "number" ? token.start : undefined}
      className={`flex flex-col gap-1 pl-6 ${token.ordered ? "list-decimal" : "list-disc"}`}
    >
      {token.items.map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
        <li key={index} className="max-w-[80ch] [&>p:not(:last-child)]:mb-2">
          {item.task && <span aria-hidden>{item.checked ? "☑ " : "☐ "}</span>}
          <Inside tokens={item.tokens.filter((it) => it.type !== "checkbox")} depth={depth + 1} />
        </li>
      ))}
    </Tag>
  );
}

function Table({ token }: { token: Tokens.Table }) {
  const align = (at: number) => ({ textAlign: token.align[at] ?? ("left" as const) });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="max-w-full overflow-x-auto" tabIndex={0}>
      <table className="border-collapse text-sm">
        <thead>
          <tr>
            {token.header.map((cell, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
              <th key={at} style={align(at)} className="border border-line bg-hover px-2 py-1 font-medium">
                <Inline tokens={cell.tokens} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
            <tr key={at}>
              {row.map((cell, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
                <td key={column} style={align(column)} className="border border-line px-2 py-1">
                  <Inline tokens={cell.tokens} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
