import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Answer, Item } from "@/api/types";
import { systemKeys } from "./query-keys";

// Events carry no samples, so these are asked for; a page in the background does not ask.

/** The host now: processors, memory, disks, network, GPUs. */
export function useHost(enabled = true) {
  return useQuery({
    queryKey: systemKeys.host,
    queryFn: ({ signal }) => call("getHostSummary", { signal }),
    refetchInterval: 5000,
    enabled,
  });
}

/** GPUs with the processes that hold their memory. */
export function useGpus(enabled = true) {
  return useQuery({
    queryKey: systemKeys.gpus,
    queryFn: ({ signal }) => call("listGpus", { signal }),
    refetchInterval: 5000,
    enabled,
  });
}

/** Who holds how much of a GPU, in MiB: models by name, other processes, and what no process is reported for. */
export function holders(gpu: Pick<Item<"listGpus">, "processes" | "mem_used_mb">): {
  models: Map<string, number>;
  other: number;
  unreported: number;
} {
  const models = new Map<string, number>();
  let other = 0;
  for (const it of gpu.processes) {
    if (it.served_name === null) other += it.mem_mb;
    else models.set(it.served_name, (models.get(it.served_name) ?? 0) + it.mem_mb);
  }
  const reported = [...models.values()].reduce((sum, it) => sum + it, other);
  return { models, other, unreported: Math.max(0, (gpu.mem_used_mb ?? 0) - reported) };
}

export function useCapabilities(enabled = true) {
  return useQuery({
    queryKey: systemKeys.capabilities,
    queryFn: ({ signal }) => call("getCapabilities", { signal }),
    staleTime: 60_000,
    enabled,
  });
}

export type Throughput = { at: number } & Answer<"getThroughput">;
/** How many samples of the throughput are kept, two seconds apart. */
const SAMPLES = 90;

/** The throughput of the last minute, with the samples since the page was opened; the newest is the last. */
export function useThroughput(enabled = true) {
  const client = useQueryClient();
  return useQuery({
    queryKey: systemKeys.throughput,
    queryFn: async ({ signal }): Promise<Throughput[]> => {
      const now = await call("getThroughput", { signal });
      const before = client.getQueryData<Throughput[]>(systemKeys.throughput) ?? [];
      return [...before.slice(1 - SAMPLES), { at: Date.now(), ...now }];
    },
    refetchInterval: 2000,
    enabled,
  });
}
