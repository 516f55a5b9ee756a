import type { ChatMessage } from "@/data/chats";

/** How an answer ended. */
export type Ending =
  | "stop"
  | "length"
  | "tool_calls"
  | "content_filter"
  | "stopped"
  | "interrupted"
  | "error"
  | "other";

export type ToolCall = { name: string; arguments: string };

/** What is kept with a message: its place in the conversation and, as the gateway measured it, how fast an answer came. */
export type Facts = {
  /** The message that this one follows; 0: none. Without it a message follows the one before it. */
  parent?: number;
  /** It is the rest of the message that it follows. */
  continues?: boolean;
  model?: string;
  ttft_ms?: number;
  total_ms?: number;
  reasoning_ms?: number;
  prompt_tokens?: number;
  completion_tokens?: number;
  /** The engine did not count: the tokens are pieces of the stream. */
  estimated?: boolean;
  tokens_per_second?: number;
  ending?: Ending;
  error?: string;
  request_id?: string;
  tool_calls?: ToolCall[];
  /** How many pictures the question had; they are in the browser that sent them. */
  pictures?: number;
};

/** One message as it is shown: with all of its parts, and the others that stand at its place. */
export type Turn = {
  id: number;
  /** What follows it follows this one: its last part. */
  last: number;
  role: ChatMessage["role"];
  content: string;
  facts: Facts;
  at: number;
  parent: number;
  /** The first parts of all messages at this place, itself included, in the order in which they were written. */
  siblings: number[];
};

type Node = Omit<Turn, "siblings"> & { children: Node[] };

const NO_FACTS: Facts = {};
const factsOf = (message: ChatMessage): Facts => (message.metrics ?? NO_FACTS) as Facts;

function grow(messages: readonly ChatMessage[]): { root: Node; nodes: Map<number, Node> } {
  const root: Node = { id: 0, last: 0, role: "user", content: "", facts: {}, at: 0, parent: 0, children: [] };
  const nodes = new Map<number, Node>([[0, root]]);
  let before = root;
  for (const message of messages) {
    const facts = factsOf(message);
    const above = (typeof facts.parent === "number" ? nodes.get(facts.parent) : undefined) ?? before;
    const { id, role, content, timestamp } = message;
    if (facts.continues && above !== root && above.role === role) {
      above.content += content;
      above.last = id;
      const reasoning = above.facts.reasoning_ms ?? facts.reasoning_ms;
      above.facts = { ...facts, pictures: above.facts.pictures, reasoning_ms: reasoning };
      nodes.set(id, above);
      before = above;
      continue;
    }
    const node: Node = {
      id,
      last: id,
      role,
      content,
      facts,
      at: timestamp,
      parent: above.last,
      children: [],
    };
    above.children.push(node);
    nodes.set(id, node);
    before = node;
  }
  return { root, nodes };
}

/**
 * Returns the conversation that leads to one of the messages in `at` and on from there by what was written last, or the
 * newest one. A chat is a tree: an edited question and a second answer stand beside the first.
 */
export function pathOf(messages: readonly ChatMessage[], at: readonly number[] = []): Turn[] {
  const { root, nodes } = grow(messages);
  const chosen = at.map((id) => nodes.get(id)).find((it) => it !== undefined);
  const newest = nodes.get(messages.at(-1)?.id ?? 0) ?? root;
  let leaf = chosen ?? newest;
  for (let next = leaf.children.at(-1); chosen && next; next = leaf.children.at(-1)) leaf = next;
  const path: Turn[] = [];
  for (let node = leaf; node !== root; ) {
    const above = nodes.get(node.parent) ?? root;
    const { children: _, ...turn } = node;
    path.unshift({ ...turn, siblings: above.children.map((it) => it.id) });
    node = above;
  }
  return path;
}

/** Some models write their reasoning into the answer: `<think>…</think>`. So is it kept here, too. */
export function splitReasoning(content: string): { reasoning: string; text: string; open: boolean } {
  const begin = /^\s*<think>/.exec(content);
  if (!begin) return { reasoning: "", text: content, open: false };
  const from = begin[0].length;
  const end = content.indexOf("</think>", from);
  if (end < 0) return { reasoning: content.slice(from).trim(), text: "", open: true };
  return {
    reasoning: content.slice(from, end).trim(),
    text: content.slice(end + "</think>".length).replace(/^\s+/, ""),
    open: false,
  };
}

/** Puts reasoning and answer into one text. */
export function joinReasoning(reasoning: string, text: string): string {
  return reasoning ? `<think>\n${reasoning}\n</think>\n\n${text}` : text;
}

/** The gateway takes messages of 200,000 characters; longer ones are kept as several. No character is cut in two. */
export function partsOf(text: string, longest = 190_000): string[] {
  // The gateway keeps no NUL.
  const clean = text.replaceAll("\0", "\ufffd");
  const parts: string[] = [];
  for (let from = 0; from < clean.length; ) {
    let to = Math.min(clean.length, from + longest);
    const code = clean.charCodeAt(to - 1);
    if (to < clean.length && code >= 0xd800 && code < 0xdc00) to -= 1;
    parts.push(clean.slice(from, to));
    from = to;
  }
  return parts.length > 0 ? parts : [""];
}
