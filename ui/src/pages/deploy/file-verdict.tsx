import { type Settings, usePreview } from "@/data/model-files";
import { Verdict } from "@/parts/models/verdict";

/** Whether a start with these settings fits into this machine, as a dry run of it says. */
export function FileVerdict({ settings }: { settings: Settings }) {
  const { data, error } = usePreview(settings);
  return <Verdict preview={data} error={error} />;
}
