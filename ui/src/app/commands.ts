import { useNavigate } from "@tanstack/react-router";
import { CirclePlay, CircleStop, Copy, KeyRound, type LucideIcon, Plus, ScrollText } from "lucide-react";
import { useModels, useStartModel } from "@/data/models";
import { useMay } from "@/data/session";
import { useT } from "@/i18n";
import { copyText } from "@/kit/copy";
import { toast, toastError } from "@/kit/toast";
import { PAGES } from "./pages";

export type CommandEntry = {
  id: string;
  group: "pages" | "models" | "actions";
  label: string;
  icon: LucideIcon;
  run: () => void;
};

/** The address that clients use. */
export function baseUrl(): string {
  return `${location.origin}/v1`;
}

/** Everything that the command menu offers to the signed-in user. */
export function useCommands(): CommandEntry[] {
  const t = useT();
  const may = useMay();
  const navigate = useNavigate();
  const { data: models = [] } = useModels({ enabled: may("listModels") });
  const start = useStartModel();
  // The menu is gone before the answer comes: so the promise tells it, as what a hook is given would not be called.
  const begin = (id: number, name: string) =>
    void start.mutateAsync({ id }).then(
      () => toast(t.commands.started(name)),
      (error: unknown) => toastError(error, name),
    );
  const copy = () => void copyText(baseUrl()).then(() => toast(t.do.copied), toastError);
  const pages = PAGES.filter((it) => may(it.needs)).map(
    (it): CommandEntry => ({
      id: it.id,
      group: "pages",
      label: t.page[it.id],
      icon: it.icon,
      run: () => void navigate({ to: it.to }),
    }),
  );
  const actions: CommandEntry[] = [
    { id: "copy", group: "actions", label: t.commands.copyBaseUrl, icon: Copy, run: copy },
    {
      id: "key",
      group: "actions",
      label: t.commands.createKey,
      icon: KeyRound,
      run: () => void navigate({ to: "/keys", search: { dialog: "create" } }),
    },
  ];
  if (may("createModel")) {
    actions.push({
      id: "deploy",
      group: "actions",
      label: t.page.deploy,
      icon: Plus,
      run: () => void navigate({ to: "/models/new" }),
    });
  }
  const ofModels = models.flatMap((model): CommandEntry[] => {
    const { id, served_name: name, state } = model;
    const params = { id: String(id) };
    const idle = state === "stopped" || state === "failed";
    const open = {
      id: `open ${id}`,
      group: "models" as const,
      label: name,
      icon: ScrollText,
      run: () => void navigate({ to: "/models/$id", params }),
    };
    const logs = {
      ...open,
      id: `logs ${id}`,
      label: t.commands.logs(name),
      run: () => void navigate({ to: "/models/$id", params, search: { tab: "logs" } }),
    };
    if (!may("startModel")) return [open, logs];
    const change = idle
      ? {
          id: `start ${id}`,
          label: t.commands.start(name),
          icon: CirclePlay,
          run: () => begin(id, name),
        }
      : {
          id: `stop ${id}`,
          label: t.commands.stop(name),
          icon: CircleStop,
          // Its page asks first, as it does wherever a model is stopped.
          run: () => void navigate({ to: "/models/$id", params, search: { ask: "stop" } }),
        };
    return [open, { group: "models", ...change }, logs];
  });
  return [...pages, ...actions, ...ofModels];
}
