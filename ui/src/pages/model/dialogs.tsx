import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Model } from "@/api/types";
import { useApplyModel } from "@/data/model-detail";
import { useChangeModel, useDeleteModel, useStartModel, useStopModel } from "@/data/models";
import { useT as useCommonT } from "@/i18n";
import { Checkbox } from "@/kit/choices";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { ErrorNote } from "@/kit/error-state";
import { toast } from "@/kit/toast";
import { useT } from "./t";

/** Which dialog is open. */
export type Asked =
  | { kind: "none" }
  | { kind: "stop" }
  | { kind: "apply" }
  | { kind: "archive" }
  | { kind: "delete" }
  | { kind: "start"; error: unknown };

type DialogsProps = { model: Model; asked: Asked; onClose: () => void };

/** The dialogs that ask before a model is stopped, restarted, archived or deleted. */
export function ModelDialogs({ model, asked, onClose }: DialogsProps) {
  const t = useT();
  const c = useCommonT();
  const navigate = useNavigate();
  const stop = useStopModel();
  const start = useStartModel();
  const change = useChangeModel();
  const remove = useDeleteModel();
  const { id, served_name: name, archived } = model;
  switch (asked.kind) {
    case "none":
      return null;
    case "apply":
      return <ApplyDialog model={model} onClose={onClose} />;
    case "stop":
      return (
        <ConfirmDialog
          open
          onClose={onClose}
          title={t.stopTitle(name)}
          consequence={t.stopText}
          action={c.do.stop}
          onConfirm={() => stop.mutateAsync({ id })}
        />
      );
    case "start":
      return (
        <ConfirmDialog
          open
          dangerous={false}
          onClose={onClose}
          title={t.startTitle(name)}
          consequence={
            <div className="flex flex-col gap-2">
              <p>{t.startRefused}</p>
              <ErrorNote error={asked.error} />
              <p>{t.startAnywayText}</p>
            </div>
          }
          action={t.startAnyway}
          onConfirm={() => start.mutateAsync({ id, force: true })}
        />
      );
    case "archive":
      return (
        <ConfirmDialog
          open
          dangerous={!archived}
          onClose={onClose}
          title={archived ? `${t.unarchive}: ${name}` : t.archiveTitle(name)}
          consequence={t.archiveText}
          action={archived ? t.unarchive : t.archive}
          onConfirm={() => change.mutateAsync({ id, body: { archived: !archived } })}
        />
      );
    case "delete":
      return (
        <ConfirmDialog
          open
          onClose={onClose}
          title={t.deleteTitle(name)}
          consequence={t.deleteText}
          action={c.do.delete}
          typed={name}
          onConfirm={async () => {
            await remove.mutateAsync(id);
            await navigate({ to: "/models" });
          }}
        />
      );
  }
}

/** Asks before the settings of a model are put into effect, and says what that stops and starts. */
export function ApplyDialog({
  model,
  onClose,
  before,
}: {
  model: Model;
  onClose: () => void;
  /** What has to be done first, such as saving. */
  before?: () => Promise<unknown>;
}) {
  const t = useT();
  const apply = useApplyModel();
  const [rollback, setRollback] = useState(true);
  // Without a change it is a plain restart.
  const restarts = !before && !model.needs_apply;
  const active = model.state === "running" || model.state === "loading" || model.state === "starting";
  return (
    <ConfirmDialog
      open
      dangerous={active}
      onClose={onClose}
      title={(restarts ? t.restartTitle : t.applyTitle)(model.served_name)}
      consequence={
        <div className="flex flex-col gap-3">
          <p>{active ? t.applyRunning : t.applyStopped}</p>
          {model.needs_apply_reason && <p className="break-words">{model.needs_apply_reason}</p>}
          <Checkbox checked={rollback} onChecked={setRollback} label={t.rollback} help={t.rollbackHelp} />
        </div>
      }
      action={restarts ? t.restart : t.apply}
      onConfirm={async () => {
        await before?.();
        await apply.mutateAsync({ id: model.id, rollback });
        toast((restarts ? t.restarted : t.applied)(model.served_name));
      }}
    />
  );
}
