import { Outlet } from "@tanstack/react-router";
import { Suspense } from "react";
import { Toasts } from "@/kit/toast";

/** What surrounds every page, also those before the sign-in. */
export function Root() {
  return (
    <Suspense>
      <Outlet />
      <Toasts />
    </Suspense>
  );
}
