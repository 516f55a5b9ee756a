import type { Schema } from "@/api/types";
import { useFormat } from "@/i18n";
import { Badge } from "@/kit/badge";
import { Middle } from "@/kit/text";
import { useT as useModelT } from "@/parts/models/t";
import { FileVerdict } from "./file-verdict";
import { useT } from "./t";

type Found = Schema<"Inspection">;
type Group = Found["gguf_groups"][number];

/** The settings with which one file of a folder is tried: the gateway fills in the rest from the file. */
export function settingsOfFile(group: Group): Record<string, string> {
  return {
    engine_type: "llamacpp",
    local_path: group.path,
    task: group.task === "generate" ? "generate" : "embed",
  };
}

/** The files of a folder, one of which is served; each usable one with a verdict for this machine. */
export function Files({
  found,
  file,
  onFile,
}: {
  found: Found;
  file: string | null;
  onFile: (path: string) => void;
}) {
  const t = useT();
  const m = useModelT();
  const format = useFormat();
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1.5 font-medium text-sm">{t.files}</legend>
      <div className="max-h-[26rem] overflow-y-auto rounded-md border border-line">
        {found.gguf_groups.map((it) => (
          <label
            key={it.path}
            className="grid grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-3 gap-y-0.5 border-line border-b px-3 py-2 text-sm last:border-b-0 hover:bg-hover has-checked:bg-accent-soft has-disabled:opacity-70 md:grid-cols-[auto_minmax(0,2fr)_9rem_minmax(0,2fr)_6rem]"
          >
            <input
              type="radio"
              name="file"
              checked={it.path === file}
              disabled={it.status !== "ready"}
              onChange={() => onFile(it.path)}
              className="size-4 appearance-none rounded-full border border-line-strong bg-panel checked:border-[5px] checked:border-accent"
            />
            <span className="flex min-w-0">
              <Middle text={it.path.replace(`${found.path}/`, "")} end={14} />
            </span>
            <span className="col-start-2 flex items-center gap-1.5 text-ink-2 md:col-start-auto">
              <Badge>{it.quant_type}</Badge>
              {m.task[it.task]}
            </span>
            <span className="col-start-2 min-w-0 md:col-start-auto">
              {it.status === "ready" ? (
                <FileVerdict settings={settingsOfFile(it)} />
              ) : (
                <span className="text-bad" title={it.errors.join("\n")}>
                  {it.status === "incomplete" && it.expected_parts > 1
                    ? t.partsOf(it.files.length, it.expected_parts)
                    : t.status[it.status]}
                  {it.errors[0] && `: ${it.errors[0]}`}
                </span>
              )}
            </span>
            <span className="col-start-3 row-start-1 text-right text-ink-2 md:col-start-auto md:row-start-auto">
              {format.bytes(it.size_bytes)}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
