import { useNavigate } from "@tanstack/react-router";
import { CirclePlay, CircleStop, Pencil, ScrollText, Trash2 } from "lucide-react";
import { useStartModel } from "@/data/models";
import { useMay } from "@/data/session";
import { useT as useCommonT } from "@/i18n";
import { IconButton } from "@/kit/button";
import { toastError } from "@/kit/toast";
import type { Row } from "./rows";

type RowActionsProps = { row: Row; onStop: (row: Row) => void; onChange: () => void; onRemove: () => void };

/** What can be done with one row. */
export function RowActions({ row, onStop, onChange, onRemove }: RowActionsProps) {
  const c = useCommonT();
  const may = useMay();
  const navigate = useNavigate();
  const start = useStartModel();
  if (row.kind === "entry") {
    return (
      <>
        {may("changeRegistryEntry") && (
          <IconButton icon={Pencil} size="sm" label={`${c.do.change}: ${row.name}`} onClick={onChange} />
        )}
        {may("removeRegistryEntry") && (
          <IconButton icon={Trash2} size="sm" label={`${c.do.remove}: ${row.name}`} onClick={onRemove} />
        )}
      </>
    );
  }
  const { model } = row;
  const idle = model.state === "stopped" || model.state === "failed";
  return (
    <>
      {may("startModel") && idle && !model.archived && (
        <IconButton
          icon={CirclePlay}
          size="sm"
          label={`${c.do.start}: ${row.name}`}
          onClick={() => start.mutate({ id: model.id }, { onError: (error) => toastError(error, row.name) })}
        />
      )}
      {may("stopModel") && !idle && model.state !== "stopping" && (
        <IconButton
          icon={CircleStop}
          size="sm"
          label={`${c.do.stop}: ${row.name}`}
          onClick={() => onStop(row)}
        />
      )}
      <IconButton
        icon={ScrollText}
        size="sm"
        label={`${c.do.viewLogs}: ${row.name}`}
        onClick={() => void navigate({ to: "/models/$id", params: { id: row.key }, search: { tab: "logs" } })}
      />
    </>
  );
}
