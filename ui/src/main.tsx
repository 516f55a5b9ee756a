import { CSPProvider } from "@base-ui/react/csp-provider";
import { Tooltip } from "@base-ui/react/tooltip";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "@/app/query-client";
import { router } from "@/app/router";
import { LanguageProvider } from "@/i18n";
import "@/kit/tokens.css";

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
