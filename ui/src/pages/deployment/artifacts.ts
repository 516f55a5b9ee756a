// What a job made is free JSON: each kind of job has its own. What is not as expected is left out.

export type Proof = {
  rows: Record<string, number>;
  digests: Record<string, string>;
  owners: number | null;
  /** Requests in the usage rows. */
  requests: number | null;
  /** Whether the chain of the audit log holds. */
  audit: boolean | null;
};
export type Artifacts = {
  text: (name: string) => string | undefined;
  number: (name: string) => number | undefined;
  yes: (name: string) => boolean | undefined;
  list: (name: string) => string[];
  proof: Proof | null;
};

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function only<T>(of: unknown, is: (value: unknown) => value is T): Record<string, T> {
  const entries: [string, T][] = [];
  for (const [name, value] of Object.entries(isObject(of) ? of : {}))
    if (is(value)) entries.push([name, value]);
  return Object.fromEntries(entries);
}

const isNumber = (value: unknown): value is number => typeof value === "number";
const isText = (value: unknown): value is string => typeof value === "string";

/** Reads what a job made, or returns `null` if it made nothing. */
export function readArtifacts(given: unknown): Artifacts | null {
  if (!isObject(given)) return null;
  const proof = isObject(given.proof) ? given.proof : undefined;
  return {
    text: (name) => (isText(given[name]) ? given[name] : undefined),
    number: (name) => (isNumber(given[name]) ? given[name] : undefined),
    yes: (name) => (typeof given[name] === "boolean" ? given[name] : undefined),
    list: (name) =>
      Array.isArray(given[name]) ? given[name].map((it) => (isText(it) ? it : nameOf(it))) : [],
    proof: proof
      ? {
          rows: only(proof.rows, isNumber),
          digests: only(proof.digests, isText),
          owners: isNumber(proof.enabled_owners) ? proof.enabled_owners : null,
          requests: only(proof.usage, isNumber).requests ?? null,
          audit: isObject(proof.audit) ? proof.audit.verifies === true : null,
        }
      : null,
  };
}

/** An imported model is an object with a name. */
function nameOf(of: unknown): string {
  if (isObject(of) && isText(of.served_name)) return of.served_name;
  return JSON.stringify(of);
}
