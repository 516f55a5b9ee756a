import { CSPProvider } from "@base-ui/react/csp-provider";
import { Tooltip } from "@base-ui/react/tooltip";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "@/app/query-client";
import { router } from "@/app/router";
import { meQuery } from "@/data/session";
import { LanguageProvider } from "@/i18n";
import "@/kit/tokens.css";

// The router asks who is signed in, and only then for the part of the page: both are on their way before it does.
const [routes] = router.getMatchedRoutes(router.latestLocation.pathname);
for (const route of routes) {
  void router.loadRouteChunk(route);
  if (route.id === "/app") void queryClient.prefetchQuery(meQuery);
}

const place = document.getElementById("root");
if (place) {
  createRoot(place).render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <LanguageProvider>
          <QueryClientProvider client={queryClient}>
            <Tooltip.Provider delay={400}>
              <RouterProvider router={router} />
            </Tooltip.Provider>
          </QueryClientProvider>
        </LanguageProvider>
      </CSPProvider>
    </StrictMode>,
  );
}
