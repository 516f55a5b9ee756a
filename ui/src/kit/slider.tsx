import { part } from "./part";

export type SliderProps = {
  value: number;
  onValue: (to: number) => void;
  /** Called once when the slider is let go. */
  onCommit?: (to: number) => void;
  min?: number;
  max?: number;
  step?: number;
  label: string;
  /** What a screen reader says for a value. */
  valueText?: (value: number) => string;
  disabled?: boolean;
};

const Control = part<SliderProps>(() => import("./slider-control"));

/** A number that is chosen by feel; put a `NumberInput` beside it for the exact one. */
export function Slider(props: SliderProps) {
  return <Control {...props} waiting={<div className="h-8" />} />;
}
