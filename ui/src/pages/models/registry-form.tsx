import { type FormEvent, useId, useState } from "react";
import type { Body } from "@/api/types";
import { type RegistryEntry, useAddRegistryEntry, useChangeRegistryEntry } from "@/data/registry";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { Checkbox, Segmented } from "@/kit/choices";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { formErrors } from "@/kit/form";
import { PasswordInput, TextArea, TextInput } from "@/kit/inputs";
import { toast } from "@/kit/toast";
import { useT as useModelT } from "@/parts/models/t";
import { useT } from "./t";

const FIELDS = ["served_name", "url", "urls", "task", "upstream_model", "api_key"] as const;

type EntryDialogProps = { entry: RegistryEntry | null; names: string[]; onClose: () => void };

/** Adds an engine that runs elsewhere, or changes one. */
export function EntryDialog({ entry, names, onClose }: EntryDialogProps) {
  const t = useT();
  const c = useCommonT();
  const m = useModelT();
  const form = useId();
  const add = useAddRegistryEntry();
  const change = useChangeRegistryEntry();
  const [name, setName] = useState(entry?.served_name ?? "");
  const [urls, setUrls] = useState(entry?.urls.join("\n") ?? "");
  const [task, setTask] = useState(entry?.task ?? "generate");
  const [upstream, setUpstream] = useState(entry?.upstream_model ?? "");
  const [key, setKey] = useState("");
  const [drop, setDrop] = useState(false);
  const error = add.error ?? change.error;
  const errors = formErrors(error, FIELDS);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const lines = urls.split(/\s+/).filter(Boolean);
    const api_key = drop ? null : key || undefined;
    const body: Body<"changeRegistryEntry"> = {
      ...(lines.length > 1 ? { urls: lines } : { url: lines[0] ?? "" }),
      task,
      upstream_model: upstream || null,
      api_key,
    };
    const done = {
      onSuccess: () => {
        toast(t.entry.saved(name));
        onClose();
      },
    };
    if (entry) change.mutate({ name: entry.served_name, body }, done);
    else add.mutate({ served_name: name, ...body }, done);
  };
  return (
    <Dialog
      open
      stays
      size="md"
      onClose={onClose}
      title={entry ? t.entry.change(entry.served_name) : t.entry.add}
      description={entry ? undefined : t.entry.text}
      footer={
        <>
          <Button onClick={onClose}>{c.do.cancel}</Button>
          <Button type="submit" form={form} look="primary" busy={add.isPending || change.isPending}>
            {entry ? t.entry.save : c.do.add}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} noValidate className="flex flex-col gap-4">
        {!entry && (
          <Field label={t.entry.name} help={t.entry.nameHelp} error={errors.of("served_name")} required>
            <TextInput value={name} onValue={setName} autoComplete="off" spellCheck={false} />
          </Field>
        )}
        {!entry && names.includes(name) && <p className="text-sm text-warn">{t.entry.replaces(name)}</p>}
        <Field
          label={t.entry.urls}
          help={t.entry.urlsHelp}
          error={errors.of("url") ?? errors.of("urls")}
          required
        >
          <TextArea mono rows={2} value={urls} onValue={setUrls} spellCheck={false} />
        </Field>
        <Field label={t.entry.task} error={errors.of("task")}>
          <div>
            <Segmented
              label={t.entry.task}
              value={task}
              onValue={setTask}
              options={[
                { value: "generate", label: m.task.generate },
                { value: "embed", label: m.task.embed },
              ]}
            />
          </div>
        </Field>
        <Field
          label={t.entry.upstream}
          help={t.entry.upstreamHelp}
          error={errors.of("upstream_model")}
          optional
        >
          <TextInput value={upstream} onValue={setUpstream} autoComplete="off" spellCheck={false} />
        </Field>
        <Field
          label={t.entry.key}
          help={entry ? t.entry.keyKept : t.entry.keyHelp}
          error={errors.of("api_key")}
          optional
        >
          <PasswordInput value={key} onValue={setKey} autoComplete="new-password" disabled={drop} />
        </Field>
        {entry && <Checkbox checked={drop} onChecked={setDrop} label={t.entry.dropKey} />}
        {errors.rest !== undefined && <ErrorNote error={errors.rest} />}
      </form>
    </Dialog>
  );
}
