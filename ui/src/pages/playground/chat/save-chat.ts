// A chat as a file.
import { downloadText } from "@/api/download";
import type { Chat } from "@/data/chats";
import { fileNameOf, markdownOf } from "./snippets";
import { splitReasoning, type Turn } from "./tree";

/** A conversation as markdown, without what the model thought. `names` stand where a message says none. */
export const markdownOfTurns = (turns: Turn[], names: { you: string; model: string }): string =>
  markdownOf(
    turns.map(({ role, content, facts }) => ({
      name: role === "user" ? names.you : (facts.model ?? names.model),
      text: role === "user" ? content : splitReasoning(content).text,
    })),
  );

/** Saves a conversation that is markdown already. */
export const saveMarkdown = (title: string, text: string): void =>
  downloadText(text, `${fileNameOf(title)}.md`, "text/markdown");

/** Saves a chat with all of its branches. */
export const saveJson = (chat: Chat): void =>
  downloadText(JSON.stringify(chat, null, 2), `${fileNameOf(chat.title)}.json`, "application/json");
