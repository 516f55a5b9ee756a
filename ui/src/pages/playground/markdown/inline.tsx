import type { MarkedToken, Token } from "marked";
import type { ReactNode } from "react";
import { Formula } from "./formula";
import { isFormula } from "./formulas";

/** Only these may be followed; everything else that calls itself a link is text. */
export function safeAddress(href: string): string | undefined {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** A link out of an answer: it opens in a tab of its own, which learns nothing of this page. */
function Anchor({ href, children }: { href: string; children: ReactNode }) {
  const safe = safeAddress(href);
  if (!safe) return <span title={href}>{children}</span>;
  return (
    <a
      href={safe}
      target="_blank"
      rel="noopener noreferrer nofollow"
      title={safe}
      className="rounded-sm text-accent-text underline underline-offset-2"
    >
      {children}
    </a>
  );
}

/** Deeper parts are shown as text, as they were written. */
const DEEPEST = 24;

/** Replaces character references by their characters, as the browser knows them; what is none stays as it was written. */
function withCharacters(text: string): string {
  if (!text.includes("&")) return text;
  const parser = new DOMParser();
  return text.replace(/&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]\w{1,30});/g, (reference) => {
    // The pattern lets nothing else of HTML in, and a document that is only read runs nothing.
    return parser.parseFromString(reference, "text/html").body.textContent ?? reference;
  });
}

/** The parts of a line: bold, italics, code, links, formulas. Pictures are never loaded, and HTML is text. */
export function Inline({ tokens = [], depth = 0 }: { tokens?: Token[]; depth?: number }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
  return tokens.map((token, index) => <Part key={index} token={token} depth={depth + 1} />);
}

function Part({ token: given, depth }: { token: Token; depth: number }) {
  if (depth > DEEPEST) return given.raw;
  if (isFormula(given)) return <Formula tex={given.text} display={given.display} />;
  const token = given as MarkedToken;
  switch (token.type) {
    case "strong":
      return (
        <strong className="font-semibold">
          <Inline tokens={token.tokens} depth={depth} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inline tokens={token.tokens} depth={depth} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inline tokens={token.tokens} depth={depth} />
        </del>
      );
    case "codespan":
      return <code className="rounded-sm bg-idle-soft px-1 py-px font-mono text-sm">{token.text}</code>;
    case "br":
      return <br />;
    case "html":
      return /^<br\s*\/?>$/i.test(token.raw.trim()) ? <br /> : token.raw;
    case "link":
      return (
        <Anchor href={token.href}>
          <Inline tokens={token.tokens} depth={depth} />
        </Anchor>
      );
    case "image":
      return <Anchor href={token.href}>{token.text || token.href}</Anchor>;
    case "escape":
      return token.text;
    case "text":
      return "tokens" in token && token.tokens ? (
        <Inline tokens={token.tokens} depth={depth} />
      ) : (
        withCharacters(token.text)
      );
    default:
      return token.raw;
  }
}
