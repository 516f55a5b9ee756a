import { FileBox, Folder } from "lucide-react";
import { useInspection } from "@/data/model-files";
import { useFormat } from "@/i18n";
import { Badge } from "@/kit/badge";
import { Middle } from "@/kit/text";
import { useT as useModelT } from "@/parts/models/t";
import { FileVerdict } from "./file-verdict";
import { useT } from "./t";
import type { SourceEntry } from "./use-sources";

/** One folder or file of the models folder: what it is, the engine that suits it, and whether it fits into this machine. */
export function FolderRow({ folder, onChoose }: { folder: SourceEntry; onChoose: () => void }) {
  const t = useT();
  const m = useModelT();
  const format = useFormat();
  const { data, error } = useInspection(folder.path);
  const best = data?.engine_recommendation;
  const files = data?.gguf_groups.length ?? 0;
  const Icon = folder.path.toLowerCase().endsWith(".gguf") ? FileBox : Folder;
  return (
    <li className="border-line border-b last:border-b-0">
      <button
        type="button"
        onClick={onChoose}
        className="grid w-full grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-3 gap-y-1 px-4 py-2.5 text-left text-sm hover:bg-hover md:grid-cols-[auto_minmax(0,2fr)_minmax(0,3fr)_minmax(0,2fr)_6rem]"
      >
        <Icon aria-hidden className="size-4 text-ink-3" />
        <span className="flex min-w-0 font-medium">
          {folder.path === "." ? t.itself : <Middle text={folder.path} end={14} />}
        </span>
        <span className="col-start-2 flex min-w-0 flex-wrap items-center gap-1.5 text-ink-2 md:col-start-auto">
          {best && best.recommended_engine !== "none" && (
            <>
              <Badge>{m.engine[best.recommended_engine]}</Badge>
              {best.task && m.task[best.task]}
              {files > 1 && ` · ${t.files}: ${format.integer(files)}`}
              {data.safetensor_info?.architecture && ` · ${data.safetensor_info.architecture}`}
            </>
          )}
          {best?.recommended_engine === "none" && t.nothingUsable}
          {error && <span className="truncate">{error.message}</span>}
        </span>
        <span className="col-start-2 min-w-0 md:col-start-auto">
          {best?.settings && <FileVerdict settings={best.settings} />}
        </span>
        <span className="col-start-3 row-start-1 text-right text-ink-2 md:col-start-auto md:row-start-auto">
          {format.bytes(folder.size_bytes)}
        </span>
      </button>
    </li>
  );
}
