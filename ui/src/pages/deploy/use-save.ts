import { useNavigate } from "@tanstack/react-router";
import type { Body } from "@/api/types";
import type { Settings } from "@/data/model-files";
import { useCreateModel, useStartModel } from "@/data/models";
import { toast, toastError } from "@/kit/toast";
import { useT } from "./t";

/** Saves a new model, starts it if that is wanted, and goes to its page. */
export function useSave(onSaved: () => void) {
  const t = useT();
  const navigate = useNavigate();
  const create = useCreateModel();
  const start = useStartModel();
  const run = async (body: Settings, andStart: boolean) => {
    const model = await create.mutateAsync(body as Body<"createModel">);
    onSaved();
    if (andStart) {
      await start.mutateAsync({ id: model.id }).then(
        () => toast(t.started(model.served_name)),
        // The record is there: its page says how to go on.
        (error: unknown) => toastError(error, model.served_name),
      );
    } else toast(t.saved(model.served_name));
    await navigate({ to: "/models/$id", params: { id: String(model.id) } });
  };
  return {
    error: create.error,
    busy: create.isPending || start.isPending,
    run: (body: Settings, andStart: boolean) =>
      void run(body, andStart).catch(() => {
        // `error` has it: the form shows it.
      }),
  };
}
