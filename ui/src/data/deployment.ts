import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import type { Answer, Body, DeploymentJob } from "@/api/types";
import { deploymentKeys, imageKeys, jobKeys, modelKeys } from "./query-keys";

export type Estimate = Answer<"estimateDeploymentSize">;
export type DumpCheck = Answer<"checkDatabaseDump">;
export type PackagePlan = Extract<Answer<"importPackage">, { dry_run: boolean }>;
export type ModelPlan = Extract<Answer<"importModel">, { dry_run: boolean }>;
export type ImportedModel = Extract<Answer<"importModel">, { id: number }>;
export type ManifestEntry = Answer<"listModelManifests">[number];
export type Plan = PackagePlan["plan"];

/** How large an export would be, and whether there is room for it. */
export function useEstimate(body: Body<"estimateDeploymentSize">) {
  return useQuery({
    queryKey: [...deploymentKeys.all, "estimate", body],
    queryFn: ({ signal }) => call("estimateDeploymentSize", { body, signal }),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    retry: false,
    enabled: body.output_dir.trim() !== "",
  });
}

/** The models of a package. */
export function useManifests(output_dir: string) {
  return useQuery({
    queryKey: [...deploymentKeys.all, "manifests", output_dir],
    queryFn: ({ signal }) => call("listModelManifests", { query: { output_dir }, signal }),
    retry: false,
    enabled: output_dir.trim() !== "",
  });
}

/** What is in a package, as its manifest says. */
export function usePackageContents(output_dir: string) {
  return useQuery({
    queryKey: [...deploymentKeys.all, "contents", output_dir],
    queryFn: ({ signal }) => call("getPackageContents", { query: { output_dir }, signal }),
    retry: false,
    enabled: output_dir.trim() !== "",
  });
}

/** The list of jobs follows what was begun. */
function useJobsFollow() {
  const client = useQueryClient();
  return () => {
    for (const queryKey of [jobKeys.records, modelKeys.all, imageKeys.all])
      void client.invalidateQueries({ queryKey });
  };
}

export function useExport() {
  return useMutation({
    mutationFn: (body: Body<"exportDeployment">) => call("exportDeployment", { body }),
    onSettled: useJobsFollow(),
  });
}

export function useExportModel() {
  return useMutation({
    mutationFn: ({ id, body }: { id: number; body: Body<"exportModel"> }) =>
      call("exportModel", { path: { id }, body }),
    onSettled: useJobsFollow(),
  });
}

/** Says what an import would do. */
export function useImportPlan() {
  return useMutation({
    mutationFn: async (body: Body<"importPackage">): Promise<PackagePlan> => {
      const answer = await call("importPackage", { body: { ...body, dry_run: true } });
      if (!("plan" in answer)) throw new Error("The gateway began an import in place of a dry run.");
      return answer;
    },
  });
}

export function useImport() {
  return useMutation({
    mutationFn: (body: Body<"importPackage">) => call("importPackage", { body: { ...body, dry_run: false } }),
    onSettled: useJobsFollow(),
  });
}

export function useImportModelPlan() {
  return useMutation({
    mutationFn: async (body: Body<"importModel">): Promise<ModelPlan> => {
      const answer = await call("importModel", { body: { ...body, dry_run: true } });
      if (!("plan" in answer)) throw new Error("The gateway imported the model in place of a dry run.");
      return answer;
    },
  });
}

/** Imports one model; the answer comes when it is done. */
export function useImportModel() {
  return useMutation({
    mutationFn: async (body: Body<"importModel">): Promise<ImportedModel> => {
      const answer = await call("importModel", { body: { ...body, dry_run: false } });
      if (!("id" in answer)) throw new Error("The gateway only said what it would do.");
      return answer;
    },
    onSettled: useJobsFollow(),
  });
}

/** Reads a whole dump, and says whether it can be restored. */
export function useCheckDump() {
  return useMutation({
    mutationFn: (body: Body<"checkDatabaseDump">) => call("checkDatabaseDump", { body }),
  });
}

export function useRestore() {
  return useMutation({
    mutationFn: (body: Body<"restoreDatabase">) => call("restoreDatabase", { body }),
    onSettled: useJobsFollow(),
  });
}

export function useCancelJob() {
  return useMutation({
    mutationFn: (job: DeploymentJob) => call("cancelDeploymentJob", { path: { id: job.id } }),
    onSettled: useJobsFollow(),
  });
}
