import { useQuery } from "@tanstack/react-query";
import { urlOf } from "@/api/client";
import { errorOf, NetworkError } from "@/api/errors";
import type { Answer } from "@/api/types";
import { systemKeys } from "./query-keys";

export type Readiness = Omit<Answer<"getReadiness">, "status"> & {
  status: "ready" | "degraded" | "not_ready" | "shutting_down";
};

/** What `/readyz` says. Its 503 is an answer, too: it has the checks, and is no error of the connection. */
export function useReadiness(enabled = true) {
  return useQuery({
    queryKey: systemKeys.readiness,
    queryFn: async ({ signal }): Promise<Readiness> => {
      const response = await fetch(urlOf("getReadiness"), { signal }).catch((error: unknown) => {
        throw signal.aborted ? error : new NetworkError(String(error));
      });
      const body = (await response
        .clone()
        .json()
        .catch(() => null)) as Partial<Readiness> | null;
      if (!body?.status) throw await errorOf(response);
      return {
        runtime: "docker",
        last_proven_restore: null,
        ...body,
        status: body.status,
        checks: body.checks ?? ({} as Readiness["checks"]),
      };
    },
    refetchInterval: 5000,
    enabled,
  });
}
