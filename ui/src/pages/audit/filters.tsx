import { X } from "lucide-react";
import { useMemo } from "react";
import type { AuditFilter } from "@/data/audit";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { TextInput } from "@/kit/inputs";
import { RANGES, spanOf } from "@/kit/range";
import { SearchInput } from "@/kit/search-input";
import { Select } from "@/kit/select";
import { useSetUrl, useUrl } from "@/kit/url-state";
import { en } from "./en";
import { useT } from "./t";

const OFFERED = ["24h", "7d", "30d", "90d"] as const;
const NO_TIMES = { range: undefined, from: undefined, to: undefined };

function wordOf<T extends string>(words: Record<T, string>, word: string | undefined): T | undefined {
  for (const it in words) if (it === word) return it;
}

const time = (word: string | undefined) =>
  word && !Number.isNaN(Date.parse(word)) ? new Date(word).toISOString() : undefined;

/** What of the log is shown, as the address says; words that the gateway would refuse are left out. */
export function useFilter(): { filter: AuditFilter; filtered: boolean } {
  const { actor, action, object_type, object_id, range, from, to } = useUrl();
  return useMemo(() => {
    const last = RANGES.find((it) => it === range);
    const begin = last ? new Date(spanOf({ last }, Date.now()).from).toISOString() : time(from);
    const filter: AuditFilter = {
      from: begin,
      to: time(to),
      actor,
      action: wordOf(en.actions, action),
      object_type: wordOf(en.objects, object_type),
      object_id,
    };
    return { filter, filtered: Object.values(filter).some(Boolean) };
  }, [actor, action, object_type, object_id, range, from, to]);
}

/** The filters of the log; each stands in the address. */
export function Filters() {
  const t = useT();
  const { filter, filtered } = useFilter();
  const setUrl = useSetUrl();
  const objects = Object.entries(t.objects).map(([value, label]) => ({ value, label }));
  const actions = Object.keys(t.actions).map((value) => ({ value, label: value }));
  const clear = () =>
    setUrl({
      ...NO_TIMES,
      actor: undefined,
      action: undefined,
      object_type: undefined,
      object_id: undefined,
    });
  return (
    <div className="flex flex-wrap items-center gap-2">
      <SearchInput label={t.actorFilter} param="actor" />
      <Select
        compact
        aria-label={t.action}
        value={filter.action ?? ""}
        onValue={(action) => setUrl({ action })}
        options={[{ value: "", label: t.allActions }, ...actions]}
      />
      <Select
        compact
        aria-label={t.objectType}
        value={filter.object_type ?? ""}
        onValue={(object_type) => setUrl({ object_type })}
        options={[{ value: "", label: t.allObjects }, ...objects]}
      />
      <SearchInput keyless label={t.objectId} param="object_id" />
      <Times />
      {filtered && (
        <Button look="quiet" icon={X} onClick={clear}>
          {t.clear}
        </Button>
      )}
    </div>
  );
}

/** `datetime-local` has no zone: it shows and takes the browser's. */
function local(word: string | undefined): string {
  const at = Date.parse(word ?? "");
  if (Number.isNaN(at)) return "";
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function Times() {
  const t = useT();
  const c = useCommonT();
  const { range = "", from, to } = useUrl();
  const setUrl = useSetUrl();
  const chosen = from !== undefined || to !== undefined;
  const choose = (word: string) => {
    if (word === "chosen")
      setUrl({ range: undefined, from: new Date(Date.now() - 86_400_000).toISOString() });
    else setUrl({ ...NO_TIMES, range: word });
  };
  const set = (name: "from" | "to") => (text: string) =>
    setUrl({ [name]: text === "" ? undefined : new Date(text).toISOString() });
  return (
    <>
      <Select
        compact
        aria-label={c.range.label}
        value={chosen ? "chosen" : (OFFERED.find((it) => it === range) ?? "")}
        onValue={choose}
        options={[
          { value: "", label: t.allTime },
          ...OFFERED.map((value) => ({ value, label: c.range.last[value] })),
          { value: "chosen", label: t.chosenTimes },
        ]}
      />
      {chosen && (
        <span className="flex flex-wrap items-center gap-2 text-ink-2 text-sm">
          {(["from", "to"] as const).map((name) => (
            <TextInput
              key={name}
              type="datetime-local"
              aria-label={c.word[name]}
              title={c.word[name]}
              value={local(name === "from" ? from : to)}
              onValue={set(name)}
              className="w-48"
            />
          ))}
        </span>
      )}
    </>
  );
}
