import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { call, callPage } from "@/api/client";
import type { Body, Item } from "@/api/types";
import { modelKeys } from "./query-keys";

/** The folders and files below the models folder that may be models. */
export function useLocalFolders() {
  return useQuery({
    queryKey: [...modelKeys.all, "folders"],
    queryFn: ({ signal }) => callPage("listLocalFolders", { query: { limit: 1000 }, signal }),
  });
}

/** What a folder or a file is. `null` asks nothing. */
export function useInspection(folder: string | null) {
  return useQuery({
    queryKey: [...modelKeys.all, "inspection", folder],
    queryFn: ({ signal }) => call("inspectFolder", { query: { folder: folder ?? "" }, signal }),
    enabled: folder !== null,
    staleTime: 60_000,
    retry: false,
  });
}

/** What a repository of the hub is. `null` asks nothing: each question goes out to the hub. */
export function useHubConfig(repo: string | null) {
  return useQuery({
    queryKey: [...modelKeys.all, "hub", repo],
    queryFn: ({ signal }) => call("getHubConfig", { query: { repo_id: repo ?? "" }, signal }),
    enabled: repo !== null,
    staleTime: 300_000,
    retry: false,
  });
}

/** One setting of a model, as the gateway describes it. */
export type ModelField = Item<"listModelFields">;

/** Every setting of a model with its type, bounds, default, unit and help. */
export function useModelFields() {
  return useQuery({
    queryKey: [...modelKeys.all, "fields"],
    queryFn: ({ signal }) => call("listModelFields", { signal }),
    staleTime: Infinity,
  });
}

/** The settings of a model as the forms hold them: only those that are set. */
export type Settings = Record<string, unknown>;

/** What a start with these settings would do. A later question overtakes an earlier one, which is cancelled. */
export function usePreview(settings: Settings | null) {
  return useQuery({
    queryKey: [...modelKeys.all, "preview", settings],
    queryFn: ({ signal }) => call("previewModel", { body: settings as Body<"previewModel">, signal }),
    enabled: settings !== null,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    retry: false,
  });
}

/** What a start of a saved model would do now, with these changes of its record. */
export function useSavedPreview(id: number, version: string, changes: Settings = {}) {
  const body = changes as Body<"previewSavedModel">;
  return useQuery({
    queryKey: [...modelKeys.all, "saved-preview", id, version, changes],
    queryFn: ({ signal }) => call("previewSavedModel", { path: { id }, body, signal }),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    retry: false,
  });
}
