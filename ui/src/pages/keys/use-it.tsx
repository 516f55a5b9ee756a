import { useState } from "react";
import { useOwnModels } from "@/data/own-models";
import { CodeBlock } from "@/kit/code-block";
import { Field } from "@/kit/field";
import { Select } from "@/kit/select";
import { snippetsOf } from "@/parts/models/snippets";
import { useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

/** The models that a key may call, those that answer now first. */
export function useModelsOf(models: string[] | null) {
  const { data = [] } = useOwnModels();
  const allowed = data.filter((it) => models === null || models.includes(it.served_name));
  const chat = allowed.filter((it) => it.task === "generate");
  return { all: [...chat.filter((it) => it.callable), ...chat.filter((it) => !it.callable)] };
}

/** Shows what a user enters into clients of this gateway, with the name of a model that runs. */
export function UseIt({ models, token }: { models: string[] | null; token?: string }) {
  const t = useT();
  const { all } = useModelsOf(models);
  const [chosen, choose] = useState("");
  const model = all.find((it) => it.served_name === chosen) ?? all[0];
  const m = useModelT();
  const name = model?.served_name ?? models?.[0] ?? "my-model";
  return (
    <section className="flex min-w-0 flex-col gap-3">
      <h3 className="font-semibold">{t.use.title}</h3>
      {all.length > 1 && (
        <Field label={t.use.model} className="max-w-80">
          <Select
            value={name}
            onValue={choose}
            options={all.map((it) => ({ value: it.served_name, label: it.served_name }))}
          />
        </Field>
      )}
      {!model?.callable && <p className="text-ink-2 text-sm">{t.use.noModel}</p>}
      <CodeBlock
        label={t.use.app}
        snippets={snippetsOf({ origin: location.origin, model: name, token }, m.openWebUi)}
      />
      {!token && <p className="text-ink-3 text-sm">{t.use.shellKey}</p>}
    </section>
  );
}
