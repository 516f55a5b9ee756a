import { useId, useState } from "react";
import { useDeploymentJobs } from "@/data/jobs";
import { Field } from "@/kit/field";
import { TextInput } from "@/kit/inputs";
import { useUrlState } from "@/kit/url-state";
import { useT } from "./t";

/** The package's folder: it stands in the address, so that all tabs speak of the same package, and nothing typed is lost. */
export function useDir(): [string, (to: string) => void] {
  const [kept, keep] = useUrlState("dir");
  const [text, setText] = useState(kept);
  const set = (to: string) => {
    setText(to);
    keep(to);
  };
  return [text, set];
}

type Props = { value: string; onValue: (to: string) => void; error?: string };

/** Asks for a package's folder, and offers those that jobs wrote or read. */
export function DirField({ value, onValue, error }: Props) {
  const t = useT();
  const list = useId();
  const { data: jobs = [] } = useDeploymentJobs();
  const known = [...new Set(jobs.map((it) => it.output_dir))];
  return (
    <Field label={t.dir} help={t.dirHelp} error={error} required>
      <TextInput
        value={value}
        onValue={onValue}
        list={list}
        mono
        required
        maxLength={1000}
        autoComplete="off"
        spellCheck={false}
      />
      <datalist id={list}>
        {known.map((it) => (
          <option key={it} value={it} />
        ))}
      </datalist>
    </Field>
  );
}
