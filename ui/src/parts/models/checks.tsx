import type { Schema } from "@/api/types";
import type { Settings } from "@/data/model-files";
import { StateShape, type Tone } from "@/kit/badge";
import { Button } from "@/kit/button";
import { CopyButton } from "@/kit/copy";
import { Facts } from "@/kit/facts";
import { useLocked } from "./locked";
import { Prose } from "./prose";
import { commandLines, shown } from "./settings";
import { useT } from "./t";

type DryRun = Schema<"DryRun">;
const ORDER = ["error", "warning", "info"] as const;
const TONE: Record<(typeof ORDER)[number], Tone> = { error: "bad", warning: "warn", info: "idle" };
const COLOR = { error: "text-bad", warning: "text-warn", info: "text-ink-2" };

/** The warnings of a dry run, the worst first; one that knows values that help has a button which sets them. */
export function Checks({ preview, onSet }: { preview: DryRun; onSet?: (set: Settings) => void }) {
  const t = useT();
  const locked = useLocked();
  const sorted = preview.warnings.toSorted((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
  if (sorted.length === 0)
    return (
      <p className="flex items-center gap-2 text-sm">
        <StateShape tone="ok" className="text-ok" />
        {t.check.none}
      </p>
    );
  return (
    <ul aria-label={t.check.warnings} className="flex flex-col gap-3 text-sm">
      {sorted.map(({ severity, title, message, fix, set }) => (
        <li key={`${title} ${message}`} className="flex items-start gap-2">
          <StateShape tone={TONE[severity]} className={`mt-1 ${COLOR[severity]}`} />
          <div className="min-w-0 flex-1">
            <p className="font-medium">
              <span className={COLOR[severity]}>{t.check.severity[severity]}</span> · {title}
            </p>
            <p className="max-w-[72ch] text-ink-2">
              <Prose text={message} />
            </p>
            {fix && (
              <p className="max-w-[72ch] text-ink-2">
                <Prose text={fix} />
              </p>
            )}
            {Object.keys(set ?? {})
              .filter(locked)
              .map((it) => (
                <p key={it} className="text-ink-3">
                  {t.failure.ownerOnly(it)}
                </p>
              ))}
            {set && onSet && !Object.keys(set).some(locked) && (
              <Button size="sm" className="mt-1 max-w-full" onClick={() => onSet(set)}>
                <span className="truncate">
                  {t.check.fix(
                    Object.entries(set)
                      .map(([name, value]) => `${name} = ${shown(value)}`)
                      .join(", "),
                  )}
                </span>
              </Button>
            )}
          </div>
        </li>
      ))}
    </ul>
  );
}

/** The exact command of a start; arguments that differ from `before` are marked. */
export function CommandView({ preview, before }: { preview: DryRun; before: string[] | null }) {
  const t = useT();
  const words = commandLines(preview.command, before);
  const changed = words.filter((it) => it.changed).length;
  const gateway = new Set(preview.gateway_options.map((it) => it.split("=")[0]));
  const cached =
    preview.image_cached === null
      ? t.check.cacheUnknown
      : preview.image_cached
        ? t.check.cached
        : t.check.notCached;
  const env = Object.entries(preview.env);
  // An engine that is a process of this machine has a path in place of an image.
  const isProgram = preview.image.startsWith("/");
  return (
    <div className="flex min-w-0 flex-col gap-3">
      <div className="relative rounded-md border border-line bg-bg">
        <div className="absolute top-1 right-1">
          <CopyButton text={preview.command_str} label={t.check.copyCommand} />
        </div>
        <pre
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
          tabIndex={0}
          role="region"
          aria-label={t.check.command}
          className="max-h-[28rem] overflow-auto py-2 pr-10 pl-3 font-mono text-xs leading-5"
        >
          {words.map((it, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a command keeps its order
            <div key={index} className={index > 0 ? "pl-4" : ""}>
              {it.changed ? (
                <mark className="rounded-sm bg-accent-soft px-0.5 font-medium text-ink">
                  {it.text}
                  <span className="sr-only"> ({t.check.changed})</span>
                </mark>
              ) : (
                it.text
              )}
              {index < words.length - 1 && <span className="text-ink-3"> \</span>}
              {gateway.has(it.text.split(/[ =]/)[0] ?? "") && (
                <span className="select-none text-ink-3"> {t.check.byGateway}</span>
              )}
            </div>
          ))}
        </pre>
      </div>
      {changed > 0 && <p className="text-ink-2 text-sm">{t.check.changedCount(changed)}</p>}
      <Facts
        facts={[
          [
            isProgram ? t.check.program : t.check.image,
            <ImageName key="image" name={preview.image} note={isProgram ? "" : cached} />,
          ],
          [t.check.version, preview.engine_version],
          ...(env.length > 0
            ? [
                [
                  t.check.env,
                  <code key="env" className="break-all font-mono text-xs">
                    {env.map(([name, value]) => `${name}=${value}`).join(" ")}
                  </code>,
                ] as [string, React.ReactNode],
              ]
            : []),
        ]}
      />
    </div>
  );
}

function ImageName({ name, note }: { name: string; note: string }) {
  return (
    <span>
      <code className="break-all font-mono text-xs">{name}</code> <span className="text-ink-3">{note}</span>
    </span>
  );
}
