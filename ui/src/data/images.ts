import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call } from "@/api/client";
import { imageKeys } from "./query-keys";

/** The images that engines and models start with, and whether they are on the machine. */
export function useImages(enabled = true) {
  return useQuery({
    queryKey: imageKeys.all,
    queryFn: ({ signal }) => call("getContainerImages", { signal }),
    refetchInterval: 10_000,
    enabled,
  });
}

/** Loads images from an archive on the gateway's machine; events say how far it is. */
export function useLoadImages() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (path: string) => call("loadContainerImages", { body: { path } }),
    onSettled: () => client.invalidateQueries({ queryKey: imageKeys.all }),
  });
}
