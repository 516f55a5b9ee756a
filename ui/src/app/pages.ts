import {
  Activity,
  Boxes,
  Building2,
  ChartNoAxesColumn,
  Code,
  Container,
  Gauge,
  History,
  KeyRound,
  type LucideIcon,
  MessageSquare,
  Package,
  SlidersHorizontal,
  Users,
} from "lucide-react";
import type { OperationId } from "@/api/types";
import type { Dictionary } from "@/i18n";

export type PageId =
  | "overview"
  | "models"
  | "playground"
  | "keys"
  | "organisations"
  | "users"
  | "usage"
  | "system"
  | "images"
  | "deployment"
  | "audit"
  | "settings"
  | "apiReference";

export type PageEntry = {
  id: PageId & keyof Dictionary["page"];
  to: (typeof PATHS)[PageId];
  icon: LucideIcon;
  group: keyof Dictionary["shell"]["groups"];
  /** Who may not call this does not see the page. */
  needs: OperationId;
  /** Pressed after `g`. */
  key: string;
};

const PATHS = {
  overview: "/",
  models: "/models",
  playground: "/playground",
  usage: "/usage",
  keys: "/keys",
  organisations: "/organisations",
  users: "/users",
  system: "/system",
  images: "/images",
  deployment: "/deployment",
  audit: "/audit",
  settings: "/settings",
  apiReference: "/api-reference",
} as const;

/** The pages of the rail, in its order. */
export const PAGES: PageEntry[] = [
  { id: "overview", to: PATHS.overview, icon: Gauge, group: "run", needs: "getMe", key: "o" },
  { id: "models", to: PATHS.models, icon: Boxes, group: "run", needs: "listModels", key: "m" },
  { id: "playground", to: PATHS.playground, icon: MessageSquare, group: "run", needs: "listChats", key: "p" },
  { id: "usage", to: PATHS.usage, icon: ChartNoAxesColumn, group: "run", needs: "listOwnUsage", key: "u" },
  { id: "keys", to: PATHS.keys, icon: KeyRound, group: "access", needs: "listOwnKeys", key: "k" },
  { id: "users", to: PATHS.users, icon: Users, group: "access", needs: "listUsers", key: "e" },
  {
    id: "organisations",
    to: PATHS.organisations,
    icon: Building2,
    group: "access",
    needs: "listOrganisations",
    key: "r",
  },
  { id: "audit", to: PATHS.audit, icon: History, group: "access", needs: "listAuditLog", key: "a" },
  { id: "system", to: PATHS.system, icon: Activity, group: "machine", needs: "getHostSummary", key: "s" },
  {
    id: "images",
    to: PATHS.images,
    icon: Container,
    group: "machine",
    needs: "getContainerImages",
    key: "i",
  },
  {
    id: "deployment",
    to: PATHS.deployment,
    icon: Package,
    group: "machine",
    needs: "listDeploymentJobs",
    key: "d",
  },
  {
    id: "settings",
    to: PATHS.settings,
    icon: SlidersHorizontal,
    group: "machine",
    needs: "getCapabilities",
    key: "t",
  },
  { id: "apiReference", to: PATHS.apiReference, icon: Code, group: "machine", needs: "getMe", key: "c" },
];
