import type { Answer } from "@/api/types";
import type { Settings } from "@/data/model-files";

type Repository = Answer<"getHubConfig">;

/** What can be served of a repository: its checkpoint, or one of its GGUF files. */
export type HubModel = {
  /** Names it in the address of the page. */
  id: string;
  /** How many files it consists of. */
  files: number;
  /** `null`: the hub does not say. */
  size: number | null;
  quant: string | null;
  /** What serves it; `null`: no engine can be told this one apart from another. */
  settings: Settings | null;
};

export const CHECKPOINT = "checkpoint";

const taskOf = (found: Repository | undefined): string => {
  const task = found?.engine_recommendation.task;
  return task && task !== "generate" ? "embed" : "generate";
};

/** Returns what can be served of a repository, as far as its files tell; `undefined`: the hub did not list them. */
export function modelsOf(found: Repository): HubModel[] | undefined {
  const { repo_id, files } = found;
  if (!files) return;
  const task = taskOf(found);
  const known = (size: number | null): size is number => size !== null;
  const weights = files.safetensors.map((it) => it.size_bytes);
  const checkpoint: HubModel = {
    id: CHECKPOINT,
    files: weights.length,
    size: weights.every(known) ? weights.reduce((sum, it) => sum + it, 0) : null,
    quant: found.summary.quantization,
    settings: { engine_type: "vllm", task, repo_id, mode: "online" },
  };
  const ggufs = files.gguf.map(
    (it): HubModel => ({
      id: it.path,
      files: it.parts,
      size: it.size_bytes,
      quant: it.quant_type,
      settings:
        it.repo_id === null ? null : { engine_type: "llamacpp", task, repo_id: it.repo_id, mode: "online" },
    }),
  );
  return weights.length > 0 ? [checkpoint, ...ggufs] : ggufs;
}

const GGUF = /[-_.]gguf(?::|$)/i;

/**
 * Returns the settings of a repository whose files are not known: as the gateway recommends, else those of GGUF files or of a
 * checkpoint, as its name says.
 */
export function settingsOfRepository(repo: string, found: Repository | undefined): Settings {
  const best = found?.engine_recommendation;
  const byName = GGUF.test(repo) ? "llamacpp" : "vllm";
  const engine = best && best.recommended_engine !== "none" ? best.recommended_engine : byName;
  return { engine_type: engine, task: taskOf(found), repo_id: repo, mode: "online" };
}

/** Returns the one that is chosen, or that is chosen for who has not: what the recommended engine can serve first. */
export function chosenOf(
  models: HubModel[],
  wanted: string | undefined,
  engine: string,
): HubModel | undefined {
  const usable = models.filter((it) => it.settings);
  return (
    usable.find((it) => it.id === wanted) ??
    usable.find((it) => it.settings?.engine_type === engine) ??
    usable[0]
  );
}
