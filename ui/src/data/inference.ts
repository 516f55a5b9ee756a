import { queryOptions, useMutation, useQueries, useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Answer, Item } from "@/api/types";
import { inferenceKeys } from "./query-keys";

export type RunningModel = Item<"listRunningModels">;
export type Constraints = Answer<"getModelConstraints">;

/** The models that answer requests now. Events tell of changes; what they do not tell is asked for. */
export function useRunningModels() {
  return useQuery({
    queryKey: inferenceKeys.running,
    queryFn: ({ signal }) => call("listRunningModels", { query: { limit: 1000 }, signal }),
    refetchInterval: 5000,
  });
}

/** What a model takes: its context, the default length of an answer, whether it takes a system prompt. */
export const constraintsQuery = (model: string) =>
  queryOptions({
    queryKey: inferenceKeys.constraints(model),
    queryFn: ({ signal }) => call("getModelConstraints", { path: { model_name: model }, signal }),
    enabled: model !== "",
    staleTime: 30_000,
  });

/** What several models take. */
export const useConstraintsOf = (models: string[]) =>
  useQueries({ queries: models.map(constraintsQuery) }).map((it) => it.data);

/** Turns texts into vectors. */
export function useEmbed() {
  return useMutation({
    mutationFn: async ({ model, texts }: { model: string; texts: string[] }) => {
      const answer = await call("createEmbedding", { body: { model, input: texts } });
      return vectorsOf(answer);
    },
  });
}

/** How well a document fits a query; `index` is its place among those that were sent. */
export type Ranked = { index: number; score: number };

/** Orders documents by how well they answer a query. */
export function useRerank() {
  return useMutation({
    mutationFn: async ({
      model,
      query,
      documents,
    }: {
      model: string;
      query: string;
      documents: string[];
    }) => {
      const answer = await call("rerank", { body: { model, query, documents } });
      return rankedOf(answer);
    },
  });
}

/** Reads the vectors of an engine's answer, in the order of the texts. Engines write what they like: nothing is trusted. */
export function vectorsOf(answer: unknown): { vectors: number[][]; tokens: number | null } {
  const { data, usage } = answer as { data?: unknown; usage?: { prompt_tokens?: unknown } | null };
  if (!Array.isArray(data)) throw new Error("The engine's answer has no vectors.");
  const rows = (data as { index?: number; embedding?: unknown }[]).map((row, at) => {
    if (!Array.isArray(row.embedding) || !row.embedding.every((it) => typeof it === "number"))
      throw new Error("The engine's answer has no vectors.");
    return { at: row.index ?? at, vector: row.embedding as number[] };
  });
  const tokens = usage?.prompt_tokens;
  return {
    vectors: rows.sort((a, b) => a.at - b.at).map((it) => it.vector),
    tokens: typeof tokens === "number" ? tokens : null,
  };
}

/** Reads the scores of an engine's answer, the best first. */
export function rankedOf(answer: unknown): Ranked[] {
  const { results } = answer as { results?: unknown };
  if (!Array.isArray(results)) throw new Error("The engine's answer has no scores.");
  return (results as { index?: unknown; relevance_score?: unknown }[])
    .flatMap(({ index, relevance_score: score }) =>
      typeof index === "number" && typeof score === "number" ? [{ index, score }] : [],
    )
    .sort((a, b) => b.score - a.score);
}
