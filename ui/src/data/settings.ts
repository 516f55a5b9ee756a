import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import { errorOf, NetworkError } from "@/api/errors";
import { modelKeys, settingKeys } from "./query-keys";

/** A setting of the gateway, as `gantry settings` prints it. Secrets have the value `***`. */
export type Setting = {
  name: string;
  group: string;
  doc: string;
  allowed: string;
  default: string;
  value: string;
  /** `default`, `environment`, `flag`, or the file that it comes from. */
  source: string;
};

// Until `npm run gen` knows the operation: the gateway has it, openapi.json of this branch has not.
async function fetchSettings(signal: AbortSignal): Promise<Setting[]> {
  const response = await fetch("/admin/system/settings", { signal }).catch((error: unknown) => {
    throw signal.aborted ? error : new NetworkError(String(error));
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as Setting[];
}

/** Every setting with its value and where that comes from. They change only with a restart of the gateway. */
export function useSettings(enabled = true) {
  return useQuery({
    queryKey: [...settingKeys.all, "list"],
    queryFn: ({ signal }) => fetchSettings(signal),
    staleTime: 60_000,
    enabled,
  });
}

/** The folder that model files are in. */
export function useModelsBaseDir(enabled = true) {
  return useQuery({
    queryKey: settingKeys.baseDir,
    queryFn: ({ signal }) => call("getModelsBaseDir", { signal }),
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
