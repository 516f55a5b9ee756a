import { useInspection, useLocalFolders } from "@/data/model-files";

/** Something in the models folder that can be chosen: a folder, or a file. */
export type SourceEntry = { path: string; size_bytes: number };

/** What lies in the models folder. Its own GGUF files stand there by their names, as they are no folder's. */
export function useSources() {
  const folders = useLocalFolders();
  const entries: SourceEntry[] | undefined = folders.data?.items;
  const root = useInspection(entries?.some((it) => it.path === ".") ? "." : null);
  // It looks into folders, too, which have rows of their own.
  const files = root.data?.gguf_groups.filter((it) => !it.path.includes("/")) ?? [];
  const checkpoint = root.data?.safetensor_info?.path === "." ? root.data.safetensor_info : null;
  const own: SourceEntry[] = [
    ...(checkpoint ? [{ path: ".", size_bytes: checkpoint.size_bytes }] : []),
    ...files.map((it) => ({ path: it.path, size_bytes: it.size_bytes })),
  ];
  return {
    // Until the gateway has looked, and where it could not, the folder stands for what is in it.
    entries: own.length > 0 ? entries?.flatMap((it) => (it.path === "." ? own : [it])) : entries,
    error: folders.error,
    isFetching: folders.isFetching || root.isFetching,
    refetch: () => {
      void folders.refetch();
      if (root.data) void root.refetch();
    },
    /** The first answer is complete. */
    ready: entries !== undefined && !root.isLoading,
  };
}
