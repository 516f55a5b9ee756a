import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import type { ReactNode } from "react";
import { fetchPart } from "@/api/part";
import { modelsQuery } from "@/data/models";
import { meQuery, roleMay, setupQuery } from "@/data/session";
import { PageError } from "./boundary";
import { NotFound } from "./not-found";
import { PagePending } from "./pending";
import { queryClient } from "./query-client";
import { Root } from "./root";
import { Shell } from "./shell";
import { parseSearch, stringifySearch, type Words } from "./url";

const root = createRootRoute({
  component: Root,
  validateSearch: (search): Words => search as Words,
});

/** The one-time token of the set-up link stands behind `#`, so that it never reaches a server's log. */
const SETUP_LINK = /^setup=([0-9a-f]+)$/;

const app = createRoute({
  getParentRoute: () => root,
  id: "app",
  component: Shell,
  beforeLoad: async ({ location }) => {
    const token = SETUP_LINK.exec(location.hash)?.[1];
    const me = token ? null : await queryClient.ensureQueryData(meQuery);
    // Every page shows the worst state of a model in its title: the list is on its way while the page is drawn.
    if (me && roleMay(me.role, "listModels"))
      void queryClient.prefetchQuery({ ...modelsQuery(false), staleTime: Infinity });
    if (me) return;
    const { has_owner } = await queryClient.fetchQuery(setupQuery);
    if (!has_owner) throw redirect({ to: "/set-up", hash: location.hash, replace: true });
    if (await queryClient.ensureQueryData(meQuery)) {
      // The link has served its purpose: its token leaves the address.
      throw redirect({ to: ".", hash: "", replace: true });
    }
    const to = location.pathname === "/" ? undefined : location.href;
    throw redirect({ to: "/login", search: { to }, replace: true });
  },
});

const page = (load: () => Promise<{ default: () => ReactNode }>) => lazyRouteComponent(() => fetchPart(load));
const inApp = () => app;
const inRoot = () => root;

// Every page has a chunk of its own, and a folder with the same name.
const routes = [
  createRoute({
    getParentRoute: inApp,
    path: "/",
    component: page(() => import("@/pages/overview")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/models",
    component: page(() => import("@/pages/models")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/models/new",
    component: page(() => import("@/pages/deploy")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/models/$id",
    component: page(() => import("@/pages/model")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/playground",
    component: page(() => import("@/pages/playground")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/playground/$id",
    component: page(() => import("@/pages/playground")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/keys",
    component: page(() => import("@/pages/keys")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/organisations",
    component: page(() => import("@/pages/orgs")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/users",
    component: page(() => import("@/pages/users")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/usage",
    component: page(() => import("@/pages/usage")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/system",
    component: page(() => import("@/pages/system")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/images",
    component: page(() => import("@/pages/images")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/deployment",
    component: page(() => import("@/pages/deployment")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/audit",
    component: page(() => import("@/pages/audit")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/settings",
    component: page(() => import("@/pages/settings")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/api-reference",
    component: page(() => import("@/pages/api-reference")),
  }),
  createRoute({
    getParentRoute: inApp,
    path: "/profile",
    component: page(() => import("@/pages/profile")),
  }),
  // Every other address, with the navigation beside it.
  createRoute({ getParentRoute: inApp, path: "$", component: NotFound }),
] as const;

const outside = [
  createRoute({
    getParentRoute: inRoot,
    path: "/login",
    component: page(() => import("@/pages/login")),
  }),
  createRoute({
    getParentRoute: inRoot,
    path: "/set-up",
    component: page(() => import("@/pages/set-up")),
  }),
  createRoute({
    getParentRoute: inRoot,
    path: "/welcome",
    component: page(() => import("@/pages/welcome")),
  }),
] as const;

// The gallery of components is for development and tests: it is not in the build.
const gallery = import.meta.env.DEV
  ? [
      createRoute({
        getParentRoute: inRoot,
        path: "/kit",
        component: page(() => import("@/pages/kit")),
      }),
    ]
  : [];

export const router = createRouter({
  routeTree: root.addChildren([app.addChildren([...routes]), ...outside, ...gallery]),
  basepath: "/ui",
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  defaultPendingComponent: PagePending,
  defaultPendingMs: 200,
  defaultErrorComponent: PageError,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
