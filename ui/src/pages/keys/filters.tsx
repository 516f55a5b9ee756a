import type { Key } from "@/api/types";
import { PickOrganisation, PickUser } from "@/app/pick";
import { useT as useCommonT } from "@/i18n";
import { Segmented } from "@/kit/choices";
import { SearchInput } from "@/kit/search-input";
import { Select } from "@/kit/select";
import { useUrlState } from "@/kit/url-state";
import { useT } from "./t";

export const STATES = ["active", "expired", "revoked", "holder_disabled"] as const;

type FiltersProps = {
  /** Whether one manages keys of others, too. */
  manages: boolean;
  own: boolean;
  withOrg: boolean;
  /** A key of the list: all have the user and the organisation that are asked for. */
  sample: Key | undefined;
};

/** What the list of keys is narrowed by; all of it stands in the address. */
export function Filters({ manages, own, withOrg, sample }: FiltersProps) {
  const t = useT();
  const c = useCommonT();
  const [, setWhose] = useUrlState("whose", "all");
  const [state, setState] = useUrlState("state");
  const [user, setUser] = useUrlState("user");
  const [org, setOrg] = useUrlState("org");
  return (
    <div className="flex flex-wrap items-center gap-2">
      {manages && (
        <Segmented
          label={t.whose}
          value={own ? "own" : "all"}
          onValue={(to) => setWhose(to)}
          options={[
            { value: "all", label: t.all },
            { value: "own", label: t.own },
          ]}
        />
      )}
      <SearchInput label={t.search} />
      <Select
        compact
        aria-label={t.state}
        value={state}
        onValue={setState}
        options={[
          { value: "", label: t.allStates },
          ...STATES.map((value) => ({
            value,
            label: value === "holder_disabled" ? t.holderDisabled : c.state[value],
          })),
        ]}
      />
      {!own && (
        <div className="w-44">
          <PickUser
            aria-label={t.columns.owner}
            placeholder={t.columns.owner}
            value={Number(user) || null}
            name={sample?.user_id === Number(user) ? sample.username : null}
            onValue={(to) => setUser(to === null ? "" : String(to))}
          />
        </div>
      )}
      {!own && withOrg && (
        <div className="w-44">
          <PickOrganisation
            aria-label={t.columns.org}
            placeholder={t.columns.org}
            value={Number(org) || null}
            name={sample?.org_id === Number(org) ? sample.org_name : null}
            onValue={(to) => setOrg(to === null ? "" : String(to))}
          />
        </div>
      )}
    </div>
  );
}
