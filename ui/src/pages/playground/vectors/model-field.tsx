import { Cpu } from "lucide-react";
import type { ReactNode } from "react";
import { useRunningModels } from "@/data/inference";
import { EmptyState } from "@/kit/empty-state";
import { ErrorState } from "@/kit/error-state";
import { Field } from "@/kit/field";
import { Select } from "@/kit/select";
import { Skeleton } from "@/kit/skeleton";
import { useUrlState } from "@/kit/url-state";
import { useT } from "../t";

/** Gives the model that makes vectors, chosen in the address; says what to do where there is none. */
export function WithVectorModel({ children }: { children: (model: string, picker: ReactNode) => ReactNode }) {
  const t = useT();
  const running = useRunningModels();
  const [chosen, choose] = useUrlState("model");
  if (running.error && !running.data) return <ErrorState error={running.error} onRetry={running.refetch} />;
  if (!running.data) return <Skeleton className="h-48" />;
  const names = running.data.filter((it) => it.task === "embed").map((it) => it.served_model_name);
  const model = names.includes(chosen) ? chosen : names[0];
  if (model === undefined)
    return (
      <EmptyState icon={Cpu} title={t.vectors.noModel}>
        {t.vectors.noModelText}
      </EmptyState>
    );
  return children(
    model,
    <Field label={t.picker.label} className="sm:w-72">
      <Select value={model} onValue={choose} options={names.map((it) => ({ value: it, label: it }))} />
    </Field>,
  );
}
