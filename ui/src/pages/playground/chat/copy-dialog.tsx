import { useChatsOf } from "@/data/chats";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { useT } from "../t";
import { markdownOfTurns, saveJson, saveMarkdown } from "./save-chat";
import { snippetsOf } from "./snippets";
import type { Turn } from "./tree";

type CopyDialogProps = {
  onClose: () => void;
  /** The chat as the gateway has it, if it has begun. */
  session: string | undefined;
  turns: Turn[];
  body: Record<string, unknown>;
};

/** The conversation as markdown, to copy and as a file, the chat with all of its branches as JSON, and programs that ask the same. */
export function CopyDialog({ onClose, session, turns, body }: CopyDialogProps) {
  const t = useT();
  const c = useCommonT();
  const chat = useChatsOf(session ? [session] : [])[0]?.data;
  const text = markdownOfTurns(turns, t.turn);
  const snippets = [
    ...snippetsOf(body, `${location.origin}/v1`),
    { id: "markdown", label: t.copy.markdown, code: text },
  ];
  return (
    <Dialog
      open
      onClose={onClose}
      size="md"
      title={t.copy.title}
      description={t.copy.text}
      footer={
        <>
          <Button onClick={() => saveMarkdown(chat?.title ?? "", text)}>{t.copy.saveMarkdown}</Button>
          {chat && <Button onClick={() => saveJson(chat)}>{t.copy.saveJson}</Button>}
          <Button onClick={onClose}>{c.do.close}</Button>
        </>
      }
    >
      <CodeBlock snippets={snippets} label={t.copy.title} />
    </Dialog>
  );
}
