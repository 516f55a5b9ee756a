import { Maximize2, X } from "lucide-react";
import { createRef, useMemo } from "react";
import type { RunningModel } from "@/data/inference";
import { IconButton } from "@/kit/button";
import { EmptyState } from "@/kit/empty-state";
import { ButtonLink } from "@/kit/link";
import { useT } from "../t";
import { ModelPicker } from "./model-picker";
import { Pane } from "./pane";
import type { Parameters } from "./parameters";
import { MOST_PANES, type PaneOf } from "./use-panes";

type ColumnsProps = {
  panes: PaneOf[];
  models: RunningModel[];
  parameters: Parameters;
  editing: number | null;
  onEditing: (id: number | null) => void;
  onModel: (at: number, model: string) => void;
  onRemove: (at: number) => void;
};

/** One conversation, or several side by side that scroll together. */
export function Columns({ panes, models, parameters, editing, onEditing, onModel, onRemove }: ColumnsProps) {
  const t = useT();
  const boxes = useMemo(() => Array.from({ length: MOST_PANES }, () => createRef<HTMLDivElement>()), []);
  const follow = (from: number) => {
    const box = boxes[from]?.current;
    // Only the one that the reader moves leads.
    if (!box?.matches(":hover, :focus-within, :focus")) return;
    const share = box.scrollTop / Math.max(1, box.scrollHeight - box.clientHeight);
    for (const [at, other] of boxes.entries())
      if (at !== from && other.current && !other.current.matches(":hover"))
        other.current.scrollTop = share * (other.current.scrollHeight - other.current.clientHeight);
  };
  const several = panes.length > 1;
  return (
    <div className="flex min-h-0 flex-1 snap-x overflow-x-auto" data-panes={panes.length}>
      {panes.map(({ session, model }, at) => (
        <section
          key={session ?? at}
          aria-label={model || t.turn.model}
          className={`flex min-h-0 flex-1 snap-start flex-col ${several ? "min-w-[86%] border-line border-r last:border-r-0 sm:min-w-72" : "min-w-0"}`}
        >
          {several && (
            <div className="flex h-10 shrink-0 items-center gap-1 border-line border-b bg-hover px-2">
              <ModelPicker
                label={t.compare.model(at + 1)}
                value={model}
                onValue={(to) => onModel(at, to)}
                models={models}
              />
              <span className="ml-auto shrink-0">
                {session ? (
                  <ButtonLink
                    to="/playground/$id"
                    params={{ id: session }}
                    look="quiet"
                    size="sm"
                    className="size-7 px-0"
                    aria-label={t.compare.alone(model)}
                    title={t.compare.alone(model)}
                  >
                    <Maximize2 aria-hidden className="size-4" />
                  </ButtonLink>
                ) : (
                  <IconButton
                    icon={X}
                    size="sm"
                    label={t.compare.remove(model)}
                    onClick={() => onRemove(at)}
                  />
                )}
              </span>
            </div>
          )}
          {session ? (
            <Pane
              session={session}
              model={model}
              parameters={parameters}
              editing={editing}
              onEditing={onEditing}
              box={boxes[at] ?? createRef()}
              onScroll={several ? () => follow(at) : undefined}
            />
          ) : (
            <div className="flex flex-1 items-center">
              <EmptyState title={several ? t.empty.compare : t.empty.title}>
                {at === 0 && !several && t.empty.text}
              </EmptyState>
            </div>
          )}
        </section>
      ))}
    </div>
  );
}
