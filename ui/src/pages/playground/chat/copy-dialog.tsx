import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { useT } from "../t";
import { markdownOf, snippetsOf } from "./snippets";
import { splitReasoning, type Turn } from "./tree";

type CopyDialogProps = {
  onClose: () => void;
  turns: Turn[];
  body: Record<string, unknown>;
};

/** The conversation as markdown, and programs that ask the same. */
export function CopyDialog({ onClose, turns, body }: CopyDialogProps) {
  const t = useT();
  const c = useCommonT();
  const text = markdownOf(
    turns.map(({ role, content, facts }) => ({
      name: role === "user" ? t.turn.you : (facts.model ?? t.turn.model),
      text: role === "user" ? content : splitReasoning(content).text,
    })),
  );
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
      footer={<Button onClick={onClose}>{c.do.close}</Button>}
    >
      <CodeBlock snippets={snippets} label={t.copy.title} />
    </Dialog>
  );
}
