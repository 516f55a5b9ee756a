import { FilterX } from "lucide-react";
import { useState } from "react";
import { useKeys } from "@/data/keys";
import { useOrganisationLookup } from "@/data/orgs";
import { useGroups } from "@/data/usage-explore";
import { useUserLookup } from "@/data/users";
import { useT as useCommonT } from "@/i18n";
import { Button } from "@/kit/button";
import { Segmented } from "@/kit/choices";
import { Combobox, type ComboboxOption } from "@/kit/combobox";
import { Select } from "@/kit/select";
import { useDimension } from "./dimension";
import { type Dimension, NO_MODEL, OUTCOMES, STATUSES, TASKS, type Usage, WORDS } from "./filter";
import { groupName } from "./group-name";
import { useT } from "./t";

/** What the page is narrowed by. */
export function Filters({ usage }: { usage: Usage }) {
  const t = useT();
  const c = useCommonT();
  const { url, set, setUrl, own, mayAll } = usage;
  const active = WORDS.some((it) => url[it]);
  const { all: dimensions } = useDimension(usage);
  return (
    <div className="flex flex-wrap items-center gap-2">
      {mayAll && (
        <Segmented
          label={t.whose}
          value={own ? "own" : "all"}
          onValue={(to) => setUrl({ whose: to === "own" ? "own" : undefined, user: "", org: "" })}
          options={[
            { value: "all", label: t.all },
            { value: "own", label: t.own },
          ]}
        />
      )}
      {dimensions.map((it) => (
        <DimensionFilter key={it} by={it} usage={usage} />
      ))}
      <Select
        compact
        aria-label={t.filters.status}
        value={url.status ?? ""}
        onValue={(to) => set({ status: to })}
        options={[
          { value: "", label: t.filters.any.status },
          ...STATUSES.map((value) => ({ value, label: t.status[value] })),
          ...(url.status && !STATUSES.some((it) => it === url.status)
            ? [{ value: url.status, label: url.status }]
            : []),
        ]}
      />
      <Select
        compact
        aria-label={t.filters.outcome}
        value={url.outcome ?? ""}
        onValue={(to) => set({ outcome: to })}
        options={[
          { value: "", label: t.filters.any.outcome },
          ...OUTCOMES.map((value) => ({ value, label: c.outcome[value] })),
        ]}
      />
      <Select
        compact
        aria-label={t.filters.task}
        value={url.task ?? ""}
        onValue={(to) => set({ task: to })}
        options={[
          { value: "", label: t.filters.any.task },
          ...TASKS.map((value) => ({ value, label: t.task[value] })),
        ]}
      />
      {active && (
        <Button
          look="quiet"
          icon={FilterX}
          onClick={() => set(Object.fromEntries(WORDS.map((it) => [it, ""])))}
        >
          {t.filters.clear}
        </Button>
      )}
    </div>
  );
}

/** Finds what is typed, also where it has no usage in the range. */
function useFound(by: Dimension, text: string): { found: ComboboxOption[]; isFetching: boolean } {
  const typed = text.trim().slice(0, 200);
  const keys = useKeys({ q: typed, limit: 20 }, { enabled: by === "key" && typed !== "" });
  const users = useUserLookup(typed, { enabled: by === "user" && typed !== "" });
  const orgs = useOrganisationLookup(typed, { enabled: by === "org" && typed !== "" });
  const isFetching = keys.isFetching || users.isFetching || orgs.isFetching;
  if (typed === "") return { found: [], isFetching };
  if (by === "key") {
    const found = (keys.data?.items ?? []).map((it) => ({
      value: String(it.id),
      label: it.name || `${it.prefix}…`,
      note: it.username ?? undefined,
    }));
    return { found, isFetching };
  }
  const list = by === "user" ? users.data?.map((it) => ({ id: it.id, name: it.username })) : orgs.data;
  return { found: (list ?? []).map((it) => ({ value: String(it.id), label: it.name })), isFetching };
}

function DimensionFilter({ by, usage }: { by: Dimension; usage: Usage }) {
  const t = useT();
  const { url, set, own, now } = usage;
  const [text, setText] = useState("");
  // On much data the four lists cost as much as the page itself, and most people open none.
  const [near, setNear] = useState(false);
  const { model: _, no_model: __, key_id, user_id, org_id, ...rest } = now;
  // The names of what is chosen must be among the options, too.
  const others = { key: { user_id, org_id }, user: { org_id }, org: {}, model: { key_id, user_id, org_id } };
  const used = useGroups({ ...rest, ...others[by], group_by: by, limit: 100 }, own, { enabled: near });
  const chosen = useGroups({ ...now, group_by: by, limit: 1 }, own, { enabled: Boolean(url[by]) });
  const { found, isFetching } = useFound(by, own ? "" : text);
  const options = new Map<string, ComboboxOption>();
  for (const group of [...(used.data?.items ?? []), ...(url[by] ? (chosen.data?.items ?? []) : [])]) {
    const name = groupName(group, by, t);
    const value = by === "model" ? group.model_name || NO_MODEL : String(group.group_id ?? "");
    if (value !== "") options.set(value, { value, label: name });
  }
  for (const it of found) options.set(it.value, it);
  const wanted = text.trim().toLowerCase();
  const matching = [...options.values()].filter(
    (it) => it.value === url[by] || it.label.toLowerCase().includes(wanted),
  );
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only notices that somebody comes near
    <div className="w-36" onPointerEnter={() => setNear(true)} onFocus={() => setNear(true)}>
      <Combobox
        aria-label={t.filters[by]}
        placeholder={t.filters[by]}
        value={url[by] ?? ""}
        onValue={(to) => {
          setText("");
          set({ [by]: to });
        }}
        options={matching}
        onSearch={setText}
        loading={isFetching || used.isFetching}
      />
    </div>
  );
}
