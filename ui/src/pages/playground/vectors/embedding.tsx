import { type FormEvent, type ReactNode, useState } from "react";
import { useLocal } from "@/app/local";
import { useEmbed } from "@/data/inference";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { CopyButton } from "@/kit/copy";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { TextArea } from "@/kit/inputs";
import { Panel } from "@/kit/panel";
import { useT } from "../t";
import { linesOf, norm } from "./math";
import { Matrix } from "./matrix";
import { WithVectorModel } from "./model-field";

const MOST = 64;

/** Turns texts into vectors, and shows how alike they are. */
export function Embedding() {
  return <WithVectorModel>{(model, picker) => <Form model={model} picker={picker} />}</WithVectorModel>;
}

function Form({ model, picker }: { model: string; picker: ReactNode }) {
  const t = useT();
  const [text, setText] = useLocal("embedding", "");
  const [sent, setSent] = useState<string[]>([]);
  const embed = useEmbed();
  const lines = linesOf(text);
  const tooMany = lines.length > MOST ? t.vectors.tooMany(MOST) : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (lines.length === 0 || tooMany) return;
    setSent(lines);
    embed.mutate({ model, texts: lines });
  };
  return (
    <>
      <Panel>
        <form onSubmit={submit} className="flex flex-col gap-4">
          {picker}
          <Field label={t.vectors.texts} help={t.vectors.textsHelp} error={tooMany}>
            <TextArea dir="auto" rows={5} value={text} onValue={setText} />
          </Field>
          {embed.error && <ErrorNote error={embed.error} />}
          <div>
            <Button type="submit" look="primary" busy={embed.isPending} disabled={lines.length === 0}>
              {t.vectors.embed}
            </Button>
          </div>
        </form>
      </Panel>
      {embed.data && <Vectors texts={sent} vectors={embed.data.vectors} tokens={embed.data.tokens} />}
    </>
  );
}

function Vectors({
  texts,
  vectors,
  tokens,
}: {
  texts: string[];
  vectors: number[][];
  tokens: number | null;
}) {
  const t = useT();
  const format = useFormat();
  return (
    <>
      {vectors.length > 1 && (
        <Panel title={t.vectors.similarity} note={t.vectors.cosine}>
          <Matrix texts={texts} vectors={vectors} />
        </Panel>
      )}
      <Panel
        flush
        title={t.vectors.vectors}
        note={tokens === null ? undefined : t.vectors.tokens(format.integer(tokens))}
        actions={<CopyButton text={JSON.stringify(vectors)} label={t.vectors.copyAll} />}
      >
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
        <div className="relative overflow-x-auto" tabIndex={0}>
          <table className="w-full text-left text-sm">
            <thead className="text-ink-2">
              <tr className="border-line border-b">
                <th className="px-4 py-2 font-medium">{t.vectors.text}</th>
                <th className="px-2 py-2 text-right font-medium">{t.vectors.dimensions}</th>
                <th className="px-2 py-2 text-right font-medium">{t.vectors.norm}</th>
                <th className="px-2 py-2 font-medium">{t.vectors.first}</th>
                <th className="px-4 py-2">
                  <span className="sr-only">{t.vectors.copy}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {vectors.map((vector, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the same text may be there twice
                <tr key={at} className="border-line border-b last:border-b-0">
                  <td dir="auto" className="max-w-72 truncate px-4 py-1.5" title={texts[at]}>
                    {texts[at]}
                  </td>
                  <td className="px-2 py-1.5 text-right">{format.integer(vector.length)}</td>
                  <td className="px-2 py-1.5 text-right">{format.decimal(norm(vector), 4)}</td>
                  <td className="max-w-72 truncate px-2 py-1.5 font-mono text-ink-2 text-xs">
                    {vector
                      .slice(0, 4)
                      .map((it) => it.toFixed(4))
                      .join("  ")}
                  </td>
                  <td className="px-4 py-1 text-right">
                    <CopyButton text={JSON.stringify(vector)} label={t.vectors.copyOne(at + 1)} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
    </>
  );
}
