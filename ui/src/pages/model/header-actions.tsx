import { useNavigate } from "@tanstack/react-router";
import { CirclePlay, CircleStop, Ellipsis, MessageSquare, RotateCw } from "lucide-react";
import { useState } from "react";
import { ApiError } from "@/api/errors";
import type { Model } from "@/api/types";
import { useStartModel } from "@/data/models";
import { useMay } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { Button, IconButton } from "@/kit/button";
import { ButtonLink } from "@/kit/link";
import { Menu, type MenuItem } from "@/kit/menu";
import { toastError } from "@/kit/toast";
import { useUrlState } from "@/kit/url-state";
import { type Asked, ModelDialogs } from "./dialogs";
import { useT } from "./t";

/** The tab of the playground that asks a model of this task. */
const TRIED = { generate: undefined, embed: "embedding", rerank: "rerank" } as const;

/** What can be done with a model: try, start, stop and restart in sight, the rest in a menu. */
export function HeaderActions({ model }: { model: Model }) {
  const t = useT();
  const c = useCommonT();
  const may = useMay();
  const navigate = useNavigate();
  const start = useStartModel();
  const [word, setWord] = useUrlState("ask");
  const [own, ask] = useState<Asked>({ kind: "none" });
  const { id, state, archived } = model;
  const idle = state === "stopped" || state === "failed";
  // The command menu asks to stop a model by its address.
  const asked: Asked = word === "stop" && !idle && may("stopModel") ? { kind: "stop" } : own;
  const close = () => {
    ask({ kind: "none" });
    if (word) setWord("");
  };
  const run = () =>
    start.mutate(
      { id },
      {
        onError: (error) => {
          // Only this refusal can be overruled: the model's files are for another task.
          if (error instanceof ApiError && error.param === "task") ask({ kind: "start", error });
          else toastError(error, model.served_name);
        },
      },
    );
  const items: MenuItem[] = [];
  if (may("createModel"))
    items.push({
      label: t.duplicate,
      onSelect: () => void navigate({ to: "/models/new", search: { from: String(id) } }),
    });
  if (may("changeModel"))
    items.push({ label: archived ? t.unarchive : t.archive, onSelect: () => ask({ kind: "archive" }) });
  if (may("deleteModel"))
    items.push(
      { kind: "line" },
      { label: c.do.delete, danger: true, onSelect: () => ask({ kind: "delete" }) },
    );
  return (
    <>
      {may("startModel") && idle && !archived && (
        <Button size="sm" look="primary" icon={CirclePlay} busy={start.isPending} onClick={run}>
          {c.do.start}
        </Button>
      )}
      {may("listChats") && state === "running" && (
        <ButtonLink
          to="/playground"
          search={{ model: model.served_name, tab: TRIED[model.task] }}
          size="sm"
          look={model.needs_apply ? "plain" : "primary"}
        >
          <MessageSquare aria-hidden className="size-4" />
          {t.tryIt}
        </ButtonLink>
      )}
      {may("applyModel") && state === "running" && (
        <Button
          size="sm"
          icon={RotateCw}
          look={model.needs_apply ? "primary" : "plain"}
          onClick={() => ask({ kind: "apply" })}
        >
          {model.needs_apply ? t.apply : t.restart}
        </Button>
      )}
      {may("stopModel") && !idle && state !== "stopping" && (
        <Button size="sm" icon={CircleStop} onClick={() => ask({ kind: "stop" })}>
          {c.do.stop}
        </Button>
      )}
      {items.length > 0 && (
        <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={c.do.more} />} items={items} />
      )}
      <ModelDialogs model={model} asked={asked} onClose={close} />
    </>
  );
}
