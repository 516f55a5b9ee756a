import type { ReactNode } from "react";
import type { DeploymentJob } from "@/api/types";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Command } from "@/kit/code-block";
import { CopyButton } from "@/kit/copy";
import { Facts } from "@/kit/facts";
import { type Artifacts, readArtifacts } from "./artifacts";
import { quoted } from "./commands";
import { JobSteps } from "./job-steps";
import { ProofTable } from "./proof-table";
import { useT } from "./t";

function Code({ text }: { text: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <code className="min-w-0 break-all font-mono text-xs">{text}</code>
      <CopyButton text={text} />
    </span>
  );
}

/** What a job did, why it failed, what it made, and for a package the commands for the other machine. */
export function JobDetail({ job }: { job: DeploymentJob }) {
  const t = useT();
  const made = readArtifacts(job.artifacts);
  const isPackage = job.job_type === "export" || job.job_type === "model_export";
  return (
    <div className="flex flex-col gap-4 whitespace-normal text-sm">
      {job.error && (
        <div className="rounded-md border border-bad-solid bg-bad-soft px-3 py-2">
          <p className="font-medium">{t.job.error}</p>
          <p className="break-words">{job.error}</p>
        </div>
      )}
      {made ? (
        <Made made={made} />
      ) : (
        <Facts facts={[[t.job.output, <Code key="dir" text={job.output_dir} />]]} />
      )}
      {made?.proof && <ProofTable proof={made.proof} />}
      <JobSteps job={job} />
      {isPackage && job.status === "completed" && (
        <NextCommands path={made?.text("path") ?? job.output_dir} />
      )}
    </div>
  );
}

function Made({ made }: { made: Artifacts }) {
  const t = useT().made;
  const c = useCommonT();
  const format = useFormat();
  const facts: [ReactNode, ReactNode][] = [];
  const code = (label: string, text: string | undefined) =>
    text && facts.push([label, <Code key={label} text={text} />]);
  const count = (label: string, value: number | undefined) =>
    value !== undefined && facts.push([label, format.integer(value)]);
  const bytes = (label: string, value: number | undefined) =>
    value !== undefined && facts.push([label, format.bytes(value)]);
  const list = (label: string, values: string[]) =>
    values.length > 0 &&
    facts.push([
      label,
      <ul key={label}>
        {values.map((it) => (
          <li key={it} className="break-all font-mono text-xs leading-5">
            {it}
          </li>
        ))}
      </ul>,
    ]);
  code(t.path, made.text("path"));
  code(t.package, made.text("package_id"));
  bytes(t.size, made.number("size_bytes"));
  count(t.files, made.number("files"));
  count(t.newFiles, made.number("new_files"));
  bytes(t.size, made.number("new_bytes"));
  code(t.manifest, made.text("manifest_sha256"));
  code(t.base, made.text("base_id"));
  const signed = made.yes("signed");
  if (signed !== undefined) facts.push([t.signed, signed ? c.word.yes : t.notSigned]);
  list(t.images, made.list("images"));
  list(t.loaded, made.list("loaded_images"));
  list(t.models, made.list("models"));
  list(t.programs, made.list("programs"));
  count(t.rows, made.number("database_rows"));
  list(t.redacted, made.list("redacted"));
  code(t.backup, made.text("backup"));
  const dumped = made.text("dumped_at");
  if (dumped) facts.push([t.dumped, format.dateTime(dumped)]);
  return <Facts facts={facts} />;
}

function NextCommands({ path }: { path: string }) {
  const t = useT().made;
  const name = path.split("/").at(-1) ?? path;
  const dir = quoted(name);
  return (
    <div className="flex max-w-3xl flex-col gap-2">
      <h3 className="text-ink-2">{t.next}</h3>
      <Command code={`gantry package verify ${dir}`} />
      <Command code={`gantry package show ${dir}`} />
      <Command code={`gantry package import ${dir} --dry-run`} />
      <Command code={`gantry package import ${dir}`} />
    </div>
  );
}
