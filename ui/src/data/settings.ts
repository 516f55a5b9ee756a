import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Item } from "@/api/types";
import { modelKeys, settingKeys } from "./query-keys";

/** A setting of the gateway, as `gantry settings` prints it. Secrets have the value `***`. */
export type Setting = Item<"listSettings">;

/** Every setting with its value and where that comes from. They change only with a restart of the gateway. */
export function useSettings(enabled = true) {
  return useQuery({
    queryKey: [...settingKeys.all, "list"],
    queryFn: ({ signal }) => call("listSettings", { signal }),
    staleTime: 60_000,
    enabled,
  });
}

/** The folder that model files are in, and how much room its disk has. */
export function useModelsBaseDir(enabled = true) {
  return useQuery({
    queryKey: settingKeys.baseDir,
    queryFn: ({ signal }) => call("getModelsBaseDir", { signal }),
    refetchInterval: 30_000,
    enabled,
  });
}

export function useChangeModelsBaseDir() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (base_dir: string) => call("changeModelsBaseDir", { body: { base_dir } }),
    onSuccess: (now) => client.setQueryData(settingKeys.baseDir, now),
    onSettled: () => client.invalidateQueries({ queryKey: modelKeys.all }),
  });
}
