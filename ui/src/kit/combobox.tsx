import { lazy, Suspense } from "react";
import type { ComboboxOption } from "./combobox-popup";
import { inputStyle } from "./inputs";

export type { ComboboxOption } from "./combobox-popup";

export type ComboboxProps = {
  /** Empty: nothing is chosen. */
  value: string;
  onValue: (to: string) => void;
  options: ComboboxOption[];
  /** Called with what is typed, where the gateway searches; without it the options are filtered here. */
  onSearch?: (text: string) => void;
  placeholder?: string;
  disabled?: boolean;
  "aria-label"?: string;
};

const Popup = lazy(() => import("./combobox-popup"));

/** One of many, found by typing. */
export function Combobox(props: ComboboxProps) {
  return (
    <Suspense fallback={<input aria-label={props["aria-label"]} disabled className={`${inputStyle} h-8`} />}>
      <Popup {...props} />
    </Suspense>
  );
}
