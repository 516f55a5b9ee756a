import { useState } from "react";
import { useOrganisationLookup } from "@/data/orgs";
import { useUserLookup } from "@/data/users";
import { Combobox } from "@/kit/combobox";

type PickProps = {
  value: number | null;
  onValue: (to: number | null) => void;
  /** The name of what is chosen, where the caller knows it. */
  name?: string | null;
  placeholder?: string;
  disabled?: boolean;
  "aria-label"?: string;
};
type Found = { id: number; name: string };

function usePick(found: Found[] | undefined, { value, name, onValue }: PickProps, clear: () => void) {
  const list = found ?? [];
  const known = value !== null && name && !list.some((it) => it.id === value) ? [{ id: value, name }] : [];
  return {
    value: value === null ? "" : String(value),
    options: [...known, ...list].map((it) => ({ value: String(it.id), label: it.name })),
    onValue: (to: string) => {
      clear();
      onValue(to === "" ? null : Number(to));
    },
  };
}

/** Chooses an organisation by its name; the gateway searches. */
export function PickOrganisation(props: PickProps) {
  const [text, setText] = useState("");
  const { data, isFetching } = useOrganisationLookup(text);
  const { placeholder, disabled } = props;
  return (
    <Combobox
      {...usePick(data, props, () => setText(""))}
      onSearch={setText}
      loading={isFetching}
      placeholder={placeholder}
      disabled={disabled}
      aria-label={props["aria-label"]}
    />
  );
}

/** Chooses a user by their name; the gateway searches. */
export function PickUser(props: PickProps) {
  const [text, setText] = useState("");
  const { data, isFetching } = useUserLookup(text);
  const { placeholder, disabled } = props;
  return (
    <Combobox
      {...usePick(
        data?.map((it) => ({ id: it.id, name: it.username })),
        props,
        () => setText(""),
      )}
      onSearch={setText}
      loading={isFetching}
      placeholder={placeholder}
      disabled={disabled}
      aria-label={props["aria-label"]}
    />
  );
}
