import type { ReactNode } from "react";
import type { Answer } from "@/api/types";
import { useCapabilities } from "@/data/system";
import { useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { ErrorState } from "@/kit/error-state";
import { Facts } from "@/kit/facts";
import { Panel } from "@/kit/panel";
import { Skeleton } from "@/kit/skeleton";
import { Prose } from "@/parts/models/prose";
import { useT } from "./t";

type Capabilities = Answer<"getCapabilities">;

/** What the machine has, and of what it has not, why. */
export function CapabilitiesCard() {
  const t = useT().capabilities;
  const found = useCapabilities();
  return (
    <Panel title={t.title}>
      {found.data ? (
        <Shown of={found.data} />
      ) : found.error ? (
        <ErrorState error={found.error} onRetry={found.refetch} />
      ) : (
        <Skeleton className="h-56" />
      )}
    </Panel>
  );
}

function Shown({ of }: { of: Capabilities }) {
  const t = useT().capabilities;
  const format = useFormat();
  const { os, cpu, cgroup, container, container_runtime: runtime } = of;
  const limits = [
    t.cgroupText(String(cgroup.version)),
    t.memoryLimit(cgroup.memory_limit_mb === null ? t.noLimit : format.mebibytes(cgroup.memory_limit_mb)),
    t.cpuLimit(cgroup.cpu_limit === null ? t.noLimit : format.decimal(cgroup.cpu_limit, 1)),
  ].join(", ");
  const runtimeName = [runtime.name, runtime.version, runtime.api_version && `API ${runtime.api_version}`];
  const facts: [ReactNode, ReactNode][] = [
    [
      t.os,
      [os.name ?? "–", os.arch, os.wsl === null ? "" : t.wsl(String(os.wsl))].filter(Boolean).join(" · "),
    ],
    [t.kernel, os.kernel ?? "–"],
    [t.cpu, `${cpu.model ?? "–"} · ${t.usable(format.integer(cpu.usable), format.integer(cpu.count))}`],
    [t.container, container.inside ? t.inside(container.evidence ?? "–") : t.insideNo],
    [t.cgroup, cgroup.version === null ? t.cgroupNone : limits],
    [
      t.runtime,
      <Provider
        key="runtime"
        available={runtime.available}
        name={runtimeName.filter(Boolean).join(" ")}
        detail={runtime.detail}
      />,
    ],
    [t.toolkit, <Provider key="toolkit" {...of.gpu_toolkit} />],
    [
      t.providers,
      <ul key="providers" className="flex flex-col gap-1.5">
        {of.monitoring.map((it) => (
          <li key={it.name}>
            <Provider {...it} />
          </li>
        ))}
      </ul>,
    ],
  ];
  return <Facts facts={facts} />;
}

type ProviderProps = { available: boolean; name: string; detail: string | null };

/** One thing that may be there: its name, whether it is, and more about it or why not. */
function Provider({ available, name, detail }: ProviderProps) {
  const t = useT().capabilities;
  return (
    <div className="flex gap-1.5">
      <StateShape
        tone={available ? "ok" : "idle"}
        className={`mt-1 ${available ? "text-ok" : "text-ink-3"}`}
      />
      <div className="min-w-0 break-words">
        {name && <span className="font-medium">{name} </span>}
        <span className="text-ink-2">{available ? t.there : t.notThere}</span>
        {detail && (
          <p className="text-ink-3">
            <Prose asIs text={detail} />
          </p>
        )}
      </div>
    </div>
  );
}
