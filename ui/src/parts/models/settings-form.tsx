import { useMemo } from "react";
import { type ModelField, type Settings, useModelFields } from "@/data/model-files";
import { useGatewayTexts } from "@/i18n/gateway";
import { Segmented } from "@/kit/choices";
import { ErrorState } from "@/kit/error-state";
import { SearchInput } from "@/kit/search-input";
import { Skeleton } from "@/kit/skeleton";
import { useUrlState } from "@/kit/url-state";
import { useLocked } from "./locked";
import { Setting } from "./setting";
import { fieldsOf, SIMPLE, SOURCE, same, tunedOf } from "./settings";
import { useT } from "./t";

type SettingsFormProps = {
  engine: string;
  task: string;
  settings: Settings;
  /** What was set when the form was opened: what differs is marked, and can be reset. */
  before: Settings;
  onChange: (name: string, to: unknown) => void;
  errorOf: (name: string) => string | undefined;
  /** The tokens of context that the model was trained for, if that is known. */
  trained: number | null;
  /** Shows the path or the repository, too. */
  withSource?: boolean;
};

/** Every setting of a model, as the gateway describes them: the few that most people look at, or all in groups. */
export function SettingsForm(props: SettingsFormProps) {
  const { engine, settings, before, errorOf, withSource } = props;
  const t = useT();
  const [view, setView] = useUrlState("settings", "simple");
  const [find] = useUrlState("find");
  const { data, error, refetch } = useModelFields();
  const words = useGatewayTexts();
  const fields = useMemo(
    () =>
      fieldsOf(data ?? [], engine)
        .filter((it) => withSource || !SOURCE.includes(it.name))
        .map((it) => ({
          ...it,
          help: words.fields[it.name] ?? it.help,
          tuned: it.tuned && { ...it.tuned, why: words.tuned[it.name] ?? it.tuned.why },
        })),
    [data, engine, withSource, words],
  );
  if (error && !data) return <ErrorState error={error} onRetry={refetch} />;
  if (!data) return <Skeleton className="h-64" />;
  const word = find.trim().toLowerCase();
  const found = fields.filter((it) =>
    word
      ? `${it.name} ${it.help}`.toLowerCase().includes(word)
      : view === "all" ||
        SIMPLE.includes(it.name) ||
        !same(settings[it.name], before[it.name]) ||
        errorOf(it.name) !== undefined,
  );
  const place = (it: ModelField) => (SIMPLE.indexOf(it.name) + SIMPLE.length + 1) % (SIMPLE.length + 1);
  const groups =
    view === "all" || word
      ? [...new Set(found.map((it) => it.group))].map(
          (group) => [group, found.filter((it) => it.group === group)] as const,
        )
      : [["", found.toSorted((a, b) => place(a) - place(b))] as const];
  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-wrap items-center gap-3">
        <Segmented
          label={t.settings.view}
          value={view === "all" ? "all" : "simple"}
          onValue={setView}
          options={[
            { value: "simple", label: t.settings.simple },
            { value: "all", label: t.settings.all },
          ]}
        />
        <SearchInput label={t.settings.find} param="find" />
        <Count settings={settings} fields={fields} />
      </div>
      {found.length === 0 && <p className="text-ink-2 text-sm">{t.settings.none}</p>}
      {groups.map(([group, list]) => (
        <fieldset key={group} className="min-w-0">
          {group && (
            <legend className="mb-3 w-full border-line border-b pb-1 font-semibold text-sm">
              {t.settings.groups[group] ?? group}
            </legend>
          )}
          <Group {...props} fields={list} />
        </fieldset>
      ))}
    </div>
  );
}

function Count({ settings, fields }: { settings: Settings; fields: ModelField[] }) {
  const t = useT();
  const set = fields.filter((it) => settings[it.name] !== undefined).length;
  return <span className="text-ink-2 text-sm">{set > 0 && t.settings.count(set)}</span>;
}

function Group({
  fields,
  task,
  settings,
  before,
  onChange,
  errorOf,
  trained,
}: SettingsFormProps & { fields: ModelField[] }) {
  const locked = useLocked();
  return (
    <div className="grid items-start gap-x-6 gap-y-5 lg:grid-cols-2">
      {fields.map((it) => (
        <Setting
          key={it.name}
          field={it}
          task={task}
          value={settings[it.name]}
          changed={!same(settings[it.name], before[it.name])}
          onValue={(to) => onChange(it.name, to)}
          onReset={() => onChange(it.name, before[it.name])}
          error={errorOf(it.name)}
          tuned={tunedOf(it, settings, trained)}
          locked={locked(it.name)}
        />
      ))}
    </div>
  );
}
