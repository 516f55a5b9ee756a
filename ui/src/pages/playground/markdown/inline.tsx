import type { MarkedToken, Token } from "marked";
import type { ReactNode } from "react";

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

const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Replaces the character references that people write by the characters; others stay as they were written. */
function withCharacters(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|(\w{2,4}));/g, (whole, number?: string, name?: string) => {
    if (name) return NAMED[name] ?? whole;
    const code = Number(number);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** The parts of a line: bold, italics, code, links. Pictures are never loaded, and HTML is shown as it was written. */
export function Inline({ tokens = [] }: { tokens?: Token[] }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other identity than their place
  return tokens.map((token, index) => <Part key={index} token={token} />);
}

function Part({ token: given }: { token: Token }) {
  const token = given as MarkedToken;
  switch (token.type) {
    case "strong":
      return (
        <strong className="font-semibold">
          <Inline tokens={token.tokens} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inline tokens={token.tokens} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inline tokens={token.tokens} />
        </del>
      );
    case "codespan":
      return <code className="rounded-sm bg-idle-soft px-1 py-px font-mono text-sm">{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return (
        <Anchor href={token.href}>
          <Inline tokens={token.tokens} />
        </Anchor>
      );
    case "image":
      return <Anchor href={token.href}>{token.text || token.href}</Anchor>;
    case "escape":
      return token.text;
    case "text":
      return "tokens" in token && token.tokens ? (
        <Inline tokens={token.tokens} />
      ) : (
        withCharacters(token.text)
      );
    default:
      return token.raw;
  }
}
