/** The title that was typed for a chat, as the gateway takes it. `null`: none, so that the chat has the automatic one. */
export const titleOf = (typed: string): string | null => typed.replace(/[\s\p{Cc}]+/gu, " ").trim() || null;
