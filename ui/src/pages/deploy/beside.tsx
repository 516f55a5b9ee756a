import type { Schema } from "@/api/types";
import type { Settings } from "@/data/model-files";
import { useFormat } from "@/i18n";
import { Checkbox } from "@/kit/choices";
import { Panel } from "@/kit/panel";
import { useT } from "./t";

type File = Schema<"Inspection">["mmproj_files"][number];
export type BesideFiles = { encoders: File[]; adapters: File[] };

type BesideProps = {
  beside: BesideFiles;
  settings: Settings;
  onChange: (name: string, to: unknown) => void;
};

/** What clients call an adapter: the name of its file or folder. */
const nameOf = (path: string) => (path.split("/").at(-1) ?? path).replace(/\.gguf$/i, "");

/** Encoders of pictures and LoRA adapters that lie beside a model: each is used with it by one click. */
export function Beside({ beside: { encoders, adapters }, settings, onChange }: BesideProps) {
  const t = useT();
  if (encoders.length + adapters.length === 0) return null;
  const used = Array.isArray(settings.lora_adapters) ? settings.lora_adapters.map(String) : [];
  const setAdapter = (entry: string, on: boolean) => {
    const next = on ? [...used, entry] : used.filter((it) => it !== entry);
    onChange("lora_adapters", next.length > 0 ? next : undefined);
  };
  return (
    <Panel title={t.others}>
      <div className="flex flex-col gap-4">
        {encoders.length > 0 && (
          <Files label={t.projectors}>
            {encoders.map((it) => (
              <Entry
                key={it.path}
                file={it}
                checked={settings.mmproj === it.path}
                onChecked={(on) => onChange("mmproj", on ? it.path : undefined)}
              />
            ))}
          </Files>
        )}
        {adapters.length > 0 && (
          <Files label={t.adapters}>
            {adapters.map((it) => {
              const entry =
                used.find((word) => word.endsWith(`=${it.path}`)) ?? `${nameOf(it.path)}=${it.path}`;
              return (
                <Entry
                  key={it.path}
                  file={it}
                  checked={used.includes(entry)}
                  onChecked={(on) => setAdapter(entry, on)}
                />
              );
            })}
          </Files>
        )}
      </div>
    </Panel>
  );
}

function Files({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 font-medium text-sm">{label}</legend>
      {children}
    </fieldset>
  );
}

type EntryProps = { file: File; checked: boolean; onChecked: (to: boolean) => void };

function Entry({ file, checked, onChecked }: EntryProps) {
  const t = useT();
  const format = useFormat();
  return (
    <Checkbox
      checked={checked}
      onChecked={onChecked}
      label={<span className="break-all">{file.path}</span>}
      help={[format.bytes(file.size_bytes), file.base_model && t.madeFor(file.base_model)]
        .filter(Boolean)
        .join(" · ")}
    />
  );
}
