import { useState } from "react";
import type { ApiDocument, JsonSchema } from "@/data/openapi";
import { resolve } from "./operations";
import { Prose } from "./prose";
import { useT } from "./t";

type Texts = ReturnType<typeof useT>;
type ViewProps = { document: ApiDocument; schema: JsonSchema };

/** A schema's type in words: "list of Model", "string or null", the words that it may be. */
export function typeText(document: ApiDocument, given: JsonSchema, t: Texts): string {
  const { schema, name } = resolve(document, given);
  if (name && (schema.properties || schema.oneOf || schema.anyOf)) return name;
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((it) => JSON.stringify(it)).join(" | ");
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices && !schema.properties)
    return choices.map((it) => typeText(document, it, t)).join(` ${t.type.or} `);
  const kinds = [schema.type ?? (schema.properties ? "object" : t.type.anything)].flat();
  return kinds
    .map((kind) => {
      if (kind === "array") return t.type.listOf(schema.items ? typeText(document, schema.items, t) : "");
      const more = schema.additionalProperties;
      if (kind === "object" && !schema.properties && typeof more === "object")
        return t.type.mapOf(typeText(document, more, t));
      return schema.format && kind === "string" ? `${kind} (${schema.format})` : kind;
    })
    .join(` ${t.type.or} `);
}

/** The bounds of a value, in words. */
export function boundsText(schema: JsonSchema, t: Texts): string {
  return [
    schema.minimum === undefined ? "" : t.type.from(String(schema.minimum)),
    schema.maximum === undefined || schema.maximum > 1e15 ? "" : t.type.upTo(String(schema.maximum)),
    schema.maxLength === undefined ? "" : t.type.length(String(schema.maxLength)),
    schema.default === undefined ? "" : t.default(JSON.stringify(schema.default)),
  ]
    .filter(Boolean)
    .join(", ");
}

/** The schema whose fields can be shown: that of the entries of a list, or of the values of a map. */
function inner(document: ApiDocument, given: JsonSchema): JsonSchema | undefined {
  const { schema } = resolve(document, given);
  if (schema.properties || schema.oneOf || schema.anyOf || schema.allOf) return schema;
  if (schema.items) return inner(document, schema.items);
  const more = schema.additionalProperties;
  return typeof more === "object" ? inner(document, more) : undefined;
}

const plain = (choices: JsonSchema[], document: ApiDocument) =>
  choices.every((it) => inner(document, it) === undefined);

/** The fields of a schema; those that have fields of their own open on demand. */
export function SchemaView({ document, schema: given }: ViewProps) {
  const t = useT();
  const schema = inner(document, given);
  if (!schema) return <p className="font-mono text-xs">{typeText(document, given, t)}</p>;
  const choices = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (choices && !schema.properties && !plain(choices, document))
    return (
      <div>
        <p className="mb-2 text-ink-2 text-sm">{t.type.oneOf}</p>
        <ul className="flex flex-col gap-2">
          {choices.map((it, index) => {
            const name = resolve(document, it).name ?? t.type.variant(String(index + 1));
            return (
              <li key={name}>
                <Opening label={name} document={document} schema={it} />
              </li>
            );
          })}
        </ul>
      </div>
    );
  const fields = Object.entries(schema.properties ?? {});
  if (fields.length === 0) return <p className="text-ink-3 text-sm">{t.type.noFields}</p>;
  const required = new Set(schema.required);
  return (
    <ul className="rounded-md border border-line text-sm">
      {fields.map(([name, field]) => (
        <li key={name} className="border-line border-b px-3 py-2 last:border-b-0">
          <FieldLine name={name} schema={field} required={required.has(name)} document={document} />
        </li>
      ))}
    </ul>
  );
}

type FieldLineProps = ViewProps & { name: string; required: boolean };

/** One field: its name, type, bounds, and what it is for. */
export function FieldLine({ name, schema, required, document }: FieldLineProps) {
  const t = useT();
  const bounds = boundsText(resolve(document, schema).schema, t);
  const deeper = inner(document, schema);
  return (
    <div className="min-w-0">
      <div className="flex flex-wrap items-baseline gap-x-2">
        <code className="break-all font-medium font-mono text-xs">{name}</code>
        <span className="break-words font-mono text-ink-2 text-xs">{typeText(document, schema, t)}</span>
        {required && <span className="text-warn text-xs">{t.required}</span>}
        {bounds && <span className="text-ink-3 text-xs">{bounds}</span>}
      </div>
      <Prose text={schema.description} className="mt-0.5 text-ink-2" />
      {deeper && (
        <div className="mt-1.5">
          <Opening label={t.schema} document={document} schema={schema} name={name} />
        </div>
      )}
    </div>
  );
}

/** Fields that are drawn only once they are opened: schemas can name themselves. */
function Opening({ label, name, ...view }: ViewProps & { label: string; name?: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary
        aria-label={name ? `${label}: ${name}` : undefined}
        className="list-item w-fit rounded-sm pl-1 text-ink-2 text-xs hover:text-ink"
      >
        {label}
      </summary>
      {open && (
        <div className="mt-1.5">
          <SchemaView {...view} />
        </div>
      )}
    </details>
  );
}
