// The names of everything in the cache, so that events and actions reach it without importing the hooks.

export const sessionKeys = { me: ["me"], setup: ["setup"], own: ["own-sessions"] } as const;

export const modelKeys = {
  all: ["models"],
  lists: ["models", "list"],
  list: (archived: boolean) => ["models", "list", { archived }],
  ones: ["models", "one"],
  one: (id: number) => ["models", "one", id],
  own: ["models", "own"],
  pulls: ["models", "pulls"],
  metrics: ["models", "metrics"],
} as const;

export const jobKeys = { live: ["jobs", "live"], records: ["jobs", "records"] } as const;
export const upstreamKeys = { all: ["upstreams"] } as const;
export const systemKeys = {
  host: ["system", "host"],
  summary: ["system", "summary"],
  throughput: ["system", "throughput"],
  gpus: ["system", "gpus"],
  capabilities: ["system", "capabilities"],
  trends: ["system", "trends"],
  readiness: ["system", "readiness"],
  marks: ["system", "marks"],
  gpuCourse: ["system", "gpu-course"],
} as const;
export const imageKeys = { all: ["images"] } as const;
export const auditKeys = { all: ["audit"] } as const;
export const settingKeys = { all: ["settings"], baseDir: ["settings", "base-dir"] } as const;
export const deploymentKeys = { all: ["deployment"] } as const;
export const openApiKeys = { document: ["openapi"] } as const;
export const usageKeys = { all: ["usage"] } as const;
export const keyKeys = { all: ["keys"], own: ["own-keys"] } as const;
export const limitKeys = { own: ["own-limits"] } as const;
export const tokenKeys = { own: ["own-tokens"], all: ["tokens"] } as const;
export const orgKeys = { all: ["orgs"] } as const;
export const userKeys = { all: ["users"] } as const;
export const chatKeys = {
  all: ["chats"],
  list: ["chats", "list"],
  one: (id: string) => ["chats", "one", id],
} as const;
export const inferenceKeys = {
  running: ["inference", "running"],
  constraints: (model: string) => ["inference", "constraints", model],
} as const;
