import { useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { openApiKeys } from "./query-keys";

// The words of OpenAPI and JSON Schema that the gateway's document uses.
export type JsonSchema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  pattern?: string;
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  oneOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  allOf?: JsonSchema[];
};
export type Parameter = {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: JsonSchema;
};
export type MediaType = { schema?: JsonSchema; example?: unknown };
export type ApiResponse = {
  $ref?: string;
  description?: string;
  headers?: Record<string, unknown>;
  content?: Record<string, MediaType>;
};
export type ApiOperation = {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content?: Record<string, MediaType> };
  responses: Record<string, ApiResponse>;
  "x-gantry-role"?: string | null;
  "x-gantry-scope"?: string | null;
  "x-gantry-example"?: {
    request?: { method: string; path: string; body?: unknown };
    response?: { status: number; body?: unknown };
  };
};
export type ApiDocument = {
  info: { version: string; description?: string };
  tags: { name: string; description?: string }[];
  paths: Record<string, Record<string, ApiOperation>>;
  components: { schemas: Record<string, JsonSchema>; responses: Record<string, ApiResponse> };
};

/** The description of the API that this gateway serves; it changes only with the gateway. */
export function useOpenApi() {
  return useQuery({
    queryKey: openApiKeys.document,
    queryFn: async ({ signal }) => (await call("getOpenApi", { signal })) as ApiDocument,
    staleTime: Infinity,
  });
}
