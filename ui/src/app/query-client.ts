import { QueryClient } from "@tanstack/react-query";
import { NetworkError } from "@/api/errors";

/** The cache: the only place where what the gateway said is kept. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // A lost gateway is tested elsewhere, and everything is asked for again when it is back. Its refusals are final.
      retry: (count, error) => error instanceof NetworkError && count < 1,
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
