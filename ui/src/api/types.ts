import type { operations } from "./operations";
import type { Operations, Schemas } from "./schema";

/** A component of openapi.json: `Schema<"Model">`. */
export type Schema<N extends keyof Schemas> = Schemas[N];

export type OperationId = keyof Operations & keyof typeof operations;

/** What an operation answers: `Answer<"listModels">`. */
export type Answer<K extends OperationId> = Operations[K]["answer"];
/** The query parameters of an operation. */
export type Query<K extends OperationId> = Operations[K]["query"];
/** The body that an operation takes. */
export type Body<K extends OperationId> = Operations[K]["body"];
/** A change of the record `id`. With `revision`, the server refuses it if the record has changed since that revision. */
export type RecordChange<K extends OperationId> = { id: number; body: Body<K>; revision?: string };
/** One entry of an operation that answers a list. */
export type Item<K extends OperationId> = Answer<K> extends (infer T)[] ? T : never;

export type Model = Schema<"Model">;
export type ModelState = Schema<"ModelState">;
export type Role = Schema<"Role">;
export type Me = Schema<"Me">;
export type Key = Schema<"Key">;
export type User = Schema<"User">;
export type Organisation = Schema<"Organisation">;
export type Upstream = Schema<"Upstream">;
export type UsageRow = Schema<"UsageRow">;
export type DeploymentJob = Schema<"DeploymentJob">;
export type { LiveEvents } from "./schema";
