import { Popover } from "@base-ui/react/popover";
import { CalendarRange } from "lucide-react";
import { useState } from "react";
import { type Dictionary, useFormat, useT } from "@/i18n";
import { Button } from "./button";
import { Field } from "./field";
import { TextInput } from "./inputs";
import { RANGES, type Range, type RelativeRange, useRange } from "./range";

/** `datetime-local` has no zone: it shows and takes the browser's. */
function local(at: number): string {
  const date = new Date(at);
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Chooses the time range of a page; it stands in the address as `range=24h`, or as `from` and `to`. */
export function DateRangePicker({
  options = RANGES,
  fallback = "24h",
}: {
  options?: readonly RelativeRange[];
  fallback?: RelativeRange;
}) {
  const t = useT();
  const format = useFormat();
  const { range, setRange } = useRange(fallback);
  const [open, setOpen] = useState(false);
  const choose = (to: Range) => {
    setRange(to);
    setOpen(false);
  };
  const shown =
    "last" in range
      ? t.range.last[range.last]
      : t.range.until(format.dateMinute(range.from), format.dateMinute(range.to));
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger render={<Button icon={CalendarRange} aria-label={`${t.range.label}: ${shown}`} />}>
        {shown}
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner align="end" sideOffset={4} className="z-50">
          <Popover.Popup
            aria-label={t.range.label}
            className="flex max-w-[92vw] flex-col gap-3 rounded-lg border border-line bg-raised p-3 shadow-float outline-none sm:flex-row"
          >
            <div className="grid grid-cols-2 gap-1 sm:flex sm:w-40 sm:flex-col">
              {options.map((last) => (
                <Button
                  key={last}
                  look={"last" in range && range.last === last ? "plain" : "quiet"}
                  aria-pressed={"last" in range && range.last === last}
                  className="justify-start"
                  onClick={() => choose({ last })}
                >
                  {t.range.last[last]}
                </Button>
              ))}
            </div>
            <Absolute t={t} range={range} onApply={choose} />
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

type AbsoluteProps = {
  t: Dictionary;
  range: ReturnType<typeof useRange>["range"];
  onApply: (to: Range) => void;
};

function Absolute({ t, range, onApply }: AbsoluteProps) {
  const [from, setFrom] = useState(() => local("last" in range ? Date.now() - 86_400_000 : range.from));
  const [to, setTo] = useState(() => local("last" in range ? Date.now() : range.to));
  const [begin, end] = [new Date(from).getTime(), new Date(to).getTime()];
  const wrong = !(begin < end);
  return (
    <form
      className="flex w-64 flex-col gap-3 border-line sm:border-l sm:pl-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (!wrong) onApply({ from: begin, to: end });
      }}
    >
      <Field label={t.word.from}>
        <TextInput type="datetime-local" value={from} onValue={setFrom} required />
      </Field>
      <Field label={t.word.to} error={wrong ? t.range.order : undefined}>
        <TextInput type="datetime-local" value={to} onValue={setTo} required />
      </Field>
      <Button type="submit" look="primary" disabled={wrong}>
        {t.do.apply}
      </Button>
    </form>
  );
}
