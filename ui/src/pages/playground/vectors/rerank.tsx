import { type FormEvent, type ReactNode, useState } from "react";
import { useLocal } from "@/app/local";
import { BarList } from "@/charts/bar-list";
import { useRerank } from "@/data/inference";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { CopyButton } from "@/kit/copy";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { TextArea, TextInput } from "@/kit/inputs";
import { Panel } from "@/kit/panel";
import { useT } from "../t";
import { linesOf } from "./math";
import { WithVectorModel } from "./model-field";

const MOST = 200;

/** Orders documents by how well they answer a query. */
export function Rerank() {
  return <WithVectorModel>{(model, picker) => <Form model={model} picker={picker} />}</WithVectorModel>;
}

function Form({ model, picker }: { model: string; picker: ReactNode }) {
  const t = useT();
  const format = useFormat();
  const [query, setQuery] = useLocal("rerank.query", "");
  const [text, setText] = useLocal("rerank.documents", "");
  const [sent, setSent] = useState<string[]>([]);
  const rerank = useRerank();
  const documents = linesOf(text);
  const tooMany = documents.length > MOST ? t.vectors.tooMany(MOST) : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (documents.length === 0 || query.trim() === "" || tooMany) return;
    setSent(documents);
    rerank.mutate({ model, query, documents });
  };
  const scores = rerank.data?.map((it) => it.score) ?? [];
  // Some engines give logits: then the bars begin at the worst.
  const least = Math.min(0, ...scores);
  const most = Math.max(...scores) - least;
  return (
    <>
      <Panel>
        <form onSubmit={submit} className="flex flex-col gap-4">
          {picker}
          <Field label={t.rerank.query}>
            <TextInput dir="auto" value={query} onValue={setQuery} />
          </Field>
          <Field label={t.rerank.documents} help={t.rerank.documentsHelp} error={tooMany}>
            <TextArea dir="auto" rows={5} value={text} onValue={setText} />
          </Field>
          {rerank.error && <ErrorNote error={rerank.error} />}
          <div>
            <Button
              type="submit"
              look="primary"
              busy={rerank.isPending}
              disabled={documents.length === 0 || query.trim() === ""}
            >
              {t.rerank.go}
            </Button>
          </div>
        </form>
      </Panel>
      {rerank.data && (
        <Panel
          title={t.rerank.result}
          note={t.rerank.score}
          actions={
            <CopyButton
              label={t.rerank.copy}
              text={rerank.data
                .map((it) => `${it.score}\t${it.index + 1}\t${sent[it.index] ?? ""}`)
                .join("\n")}
            />
          }
        >
          <BarList
            label={t.rerank.result}
            max={Math.max(most, Number.EPSILON)}
            bars={rerank.data.map((it) => ({
              id: String(it.index),
              label: (
                <span dir="auto" title={sent[it.index]}>
                  {sent[it.index]}
                </span>
              ),
              value: it.score - least,
              text: format.decimal(it.score, 4),
            }))}
          />
        </Panel>
      )}
    </>
  );
}
