import { useFormat } from "@/i18n";
import { Badge } from "@/kit/badge";
import { Middle } from "@/kit/text";
import { FileVerdict } from "./file-verdict";
import { CHECKPOINT, type HubModel } from "./hub-models";
import { useT } from "./t";

type HubFilesProps = { models: HubModel[]; chosen: HubModel | undefined; onChoose: (id: string) => void };

/** What can be served of a repository, one of which is: each with its size, and a verdict as far as one can be given. */
export function HubFiles({ models, chosen, onChoose }: HubFilesProps) {
  const t = useT();
  const format = useFormat();
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1.5 font-medium text-sm">{t.files}</legend>
      <div className="max-h-[26rem] overflow-y-auto rounded-md border border-line">
        {models.map((it) => (
          <label
            key={it.id}
            className="grid grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-3 gap-y-0.5 border-line border-b px-3 py-2 text-sm last:border-b-0 hover:bg-hover has-checked:bg-accent-soft has-disabled:opacity-70 md:grid-cols-[auto_minmax(0,2fr)_9rem_minmax(0,2fr)_6rem]"
          >
            <input
              type="radio"
              name="file"
              checked={it === chosen}
              disabled={!it.settings}
              onChange={() => onChoose(it.id)}
              className="size-4 appearance-none rounded-full border border-line-strong bg-panel checked:border-[5px] checked:border-accent"
            />
            <span className="flex min-w-0">
              {it.id === CHECKPOINT ? t.hubCheckpoint : <Middle text={it.id} end={14} />}
            </span>
            <span className="col-start-2 flex items-center gap-1.5 text-ink-2 md:col-start-auto">
              {it.quant && <Badge>{it.quant}</Badge>}
              {it.files > 1 && t.hubParts(format.integer(it.files))}
            </span>
            <span className="col-start-2 min-w-0 text-ink-2 md:col-start-auto">
              {it.settings ? <FileVerdict settings={it.settings} /> : t.hubAmbiguous}
            </span>
            <span className="col-start-3 row-start-1 text-right text-ink-2 md:col-start-auto md:row-start-auto">
              {it.size === null ? t.hubNoSize : format.bytes(it.size)}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
