import { useFormat } from "@/i18n";
import { cn } from "@/kit/cn";
import { SearchInput } from "@/kit/search-input";
import { useUrlState } from "@/kit/url-state";
import { Method } from "./method";
import { type Group, matches } from "./operations";
import { useT } from "./t";

type Props = { groups: Group[]; chosen: string; onChoose: (id: string) => void };

/** All operations by tag, with a search. */
export function OperationList({ groups, chosen, onChoose }: Props) {
  const t = useT();
  const format = useFormat();
  const [text] = useUrlState("q");
  const shown = groups
    .map((it) => ({ ...it, operations: it.operations.filter((of) => matches(of, text)) }))
    .filter((it) => it.operations.length > 0);
  const count = (of: Group[]) => format.integer(of.reduce((sum, it) => sum + it.operations.length, 0));
  return (
    <nav aria-label={t.list} className="flex flex-col gap-2">
      <SearchInput label={t.search} />
      <p aria-live="polite" className="text-ink-3 text-xs">
        {shown.length === 0 ? t.none : t.count(count(shown), count(groups))}
      </p>
      <div className="lg:max-h-[calc(100dvh-9rem)] lg:overflow-y-auto">
        {shown.map((group) => (
          <section key={group.tag} className="mb-3">
            <h2 className="px-2 py-1 font-medium text-ink-2 text-xs" title={group.description}>
              {group.tag}
            </h2>
            <ul>
              {group.operations.map((it) => (
                <li key={it.operationId}>
                  <button
                    type="button"
                    aria-current={it.operationId === chosen ? "true" : undefined}
                    onClick={() => onChoose(it.operationId)}
                    title={`${it.method} ${it.path}`}
                    className={cn(
                      "flex w-full items-baseline gap-2 rounded-md px-2 py-1 text-left text-sm -outline-offset-2 hover:bg-hover",
                      it.operationId === chosen && "bg-accent-soft font-medium",
                    )}
                  >
                    <span className="w-16 shrink-0">
                      <Method of={it.method} />
                    </span>
                    <span className="min-w-0 break-words">
                      {(it.summary ?? it.operationId).replaceAll("`", "")}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </nav>
  );
}
