import type { RunningModel } from "@/data/inference";
import { Select } from "@/kit/select";
import { useT } from "../t";

type ModelPickerProps = {
  value: string;
  onValue: (to: string) => void;
  models: RunningModel[];
  label?: string;
};

/** One of the models that run. The present one stays in the list when it has stopped, and says so. */
export function ModelPicker({ value, onValue, models, label }: ModelPickerProps) {
  const t = useT();
  const options = models.map((it) => ({ value: it.served_model_name, label: it.served_model_name }));
  const runs = options.some((it) => it.value === value);
  return (
    <div className="w-full min-w-0 max-w-72">
      <Select
        aria-label={label ?? t.picker.label}
        value={value}
        onValue={onValue}
        options={
          runs ? options : [{ value, label: value ? t.picker.stopped(value) : t.picker.choose }, ...options]
        }
      />
    </div>
  );
}
