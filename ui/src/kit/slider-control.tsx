import { Slider as Base } from "@base-ui/react/slider";
import type { SliderProps } from "./slider";

/** The slider itself. It is loaded by `Slider`. */
export default function SliderControl({
  value,
  onValue,
  onCommit,
  min = 0,
  max = 100,
  step = 1,
  label,
  valueText,
  disabled,
}: SliderProps) {
  const one = (to: number | readonly number[]) => (typeof to === "number" ? to : (to[0] ?? min));
  return (
    <Base.Root
      value={value}
      min={min}
      max={max}
      step={step}
      disabled={disabled}
      onValueChange={(to) => onValue(one(to))}
      onValueCommitted={(to) => onCommit?.(one(to))}
    >
      <Base.Control className="flex h-8 w-full touch-none items-center">
        <Base.Track className="h-1.5 w-full rounded-full bg-idle-soft">
          <Base.Indicator className="rounded-full bg-accent" />
          <Base.Thumb
            aria-label={label}
            getAriaValueText={valueText ? (_, at) => valueText(at) : undefined}
            className="size-4 rounded-full border-2 border-accent bg-panel has-focus-visible:outline-2 has-focus-visible:outline-accent has-focus-visible:outline-offset-2"
          />
        </Base.Track>
      </Base.Control>
    </Base.Root>
  );
}
