import { Menu as Base } from "@base-ui/react/menu";
import { Check, type LucideIcon } from "lucide-react";
import { Fragment, type ReactElement, type ReactNode, type RefObject } from "react";
import { cn } from "./cn";

export type MenuItem =
  | {
      kind?: "action";
      label: ReactNode;
      icon?: LucideIcon;
      onSelect: () => void;
      danger?: boolean;
      disabled?: boolean;
      keys?: ReactNode;
    }
  | {
      kind: "choice";
      label: string;
      value: string;
      options: { value: string; label: string }[];
      onChoose: (to: string) => void;
    }
  | { kind: "label"; label: ReactNode }
  | { kind: "line" };

const ITEM =
  "flex min-h-8 cursor-default select-none items-center gap-2 rounded-md px-2 text-sm outline-none data-disabled:opacity-50 data-highlighted:bg-hover";

/** A menu that opens from `trigger`, which must be a button. */
export function Menu({
  trigger,
  items,
  align = "end",
  focusNext,
}: {
  trigger: ReactElement;
  items: MenuItem[];
  align?: "start" | "end";
  /** What gets the focus once the menu has closed, if not the trigger. */
  focusNext?: RefObject<HTMLElement | null> | undefined;
}) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner align={align} sideOffset={4} className="z-50 outline-none">
          <Base.Popup
            finalFocus={focusNext}
            className="min-w-44 rounded-lg border border-line bg-raised p-1 shadow-float outline-none transition-opacity duration-100 data-ending-style:opacity-0 data-starting-style:opacity-0"
          >
            {items.map((item, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the items of a menu keep their places
              <Fragment key={index}>{entry(item)}</Fragment>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

function entry(item: MenuItem) {
  if (item.kind === "line") return <Base.Separator className="-mx-1 my-1 h-px bg-line" />;
  if (item.kind === "label") return <div className="px-2 pt-1.5 pb-1 text-ink-3 text-xs">{item.label}</div>;
  if (item.kind === "choice") {
    return (
      <Base.RadioGroup
        value={item.value}
        onValueChange={(to) => item.onChoose(String(to))}
        aria-label={item.label}
      >
        <div aria-hidden className="px-2 pt-1.5 pb-1 text-ink-3 text-xs">
          {item.label}
        </div>
        {item.options.map((option) => (
          <Base.RadioItem key={option.value} value={option.value} className={ITEM}>
            <span className="grid size-4 place-items-center">
              <Base.RadioItemIndicator render={<Check aria-hidden className="size-4 text-accent-text" />} />
            </span>
            {option.label}
          </Base.RadioItem>
        ))}
      </Base.RadioGroup>
    );
  }
  const { icon: Icon } = item;
  return (
    <Base.Item
      className={cn(ITEM, item.danger && "text-bad")}
      onClick={item.onSelect}
      disabled={item.disabled}
    >
      {Icon && <Icon aria-hidden className="size-4 shrink-0" />}
      <span className="flex-1">{item.label}</span>
      {item.keys && <span className="text-ink-3 text-xs">{item.keys}</span>}
    </Base.Item>
  );
}
