import { Middle } from "./text";

type NameButtonProps = {
  name: string;
  /** What a press does, for screen readers: "Open the key laptop". */
  label: string;
  onPress: () => void;
  /** It stands for a name that is missing. */
  faint?: boolean;
};

/** The name of a row, which opens it. */
export function NameButton({ name, label, onPress, faint }: NameButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      onClick={onPress}
      className="flex max-w-56 rounded-sm text-left font-medium text-accent-text hover:underline"
    >
      <Middle text={name} className={faint ? "text-ink-3 italic" : undefined} />
    </button>
  );
}
