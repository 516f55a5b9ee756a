import type { Model } from "@/api/types";
import { CopyButton } from "@/kit/copy";
import { Panel } from "@/kit/panel";
import { Table } from "@/kit/table";
import { useT } from "./t";

/** The LoRA adapters of a model, and how they are used. */
export function Lora({ model }: { model: Model }) {
  const t = useT();
  const rows = (model.lora_adapters ?? []).map((it) => {
    const at = it.indexOf("=");
    return at < 0 ? { name: it, path: "" } : { name: it.slice(0, at), path: it.slice(at + 1) };
  });
  return (
    <Panel flush>
      <p className="px-4 py-3 text-ink-2 text-sm">
        {model.engine_type === "vllm" ? t.lora.callable : t.lora.merged}
      </p>
      <Table
        label={t.tab.lora}
        list={{ data: rows, error: null }}
        rowKey={(it) => it.name}
        columns={[
          {
            id: "name",
            head: t.lora.name,
            cell: (it) => (
              <span className="flex items-center gap-1">
                <code className="break-all font-mono text-xs">{it.name}</code>
                {model.engine_type === "vllm" && <CopyButton text={it.name} />}
              </span>
            ),
          },
          {
            id: "path",
            head: t.lora.path,
            cell: (it) => <code className="break-all font-mono text-xs">{it.path}</code>,
          },
        ]}
      />
    </Panel>
  );
}
