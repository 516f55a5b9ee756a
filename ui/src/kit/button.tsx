import { cva, type VariantProps } from "class-variance-authority";
import { LoaderCircle, type LucideIcon } from "lucide-react";
import type { ComponentProps, MouseEvent, ReactNode } from "react";
import { cn } from "./cn";
import { Tooltip } from "./tooltip";

/** The classes of a button, for a link that looks like one. */
export const buttonStyle = cva(
  "inline-flex shrink-0 select-none items-center justify-center gap-1.5 whitespace-nowrap rounded-md border font-medium transition-colors duration-100 disabled:opacity-50 aria-disabled:opacity-50",
  {
    variants: {
      look: {
        primary:
          "border-accent bg-accent text-on-accent enabled:hover:brightness-110 [a]:hover:brightness-110",
        plain: "border-line bg-panel text-ink enabled:hover:bg-hover [a]:hover:bg-hover",
        quiet:
          "border-transparent bg-transparent text-ink-2 enabled:hover:bg-hover enabled:hover:text-ink [a]:hover:bg-hover",
        danger: "border-line bg-panel text-bad enabled:hover:border-bad-solid enabled:hover:bg-bad-soft",
      },
      size: { sm: "h-7 px-2 text-sm", md: "h-8 px-3 text-sm", lg: "h-10 px-4 text-base" },
    },
    defaultVariants: { look: "plain", size: "md" },
  },
);

export type ButtonLook = VariantProps<typeof buttonStyle>;

type ButtonProps = ComponentProps<"button"> & ButtonLook & { icon?: LucideIcon; busy?: boolean };

/** What keeps a button from being pressed again while its action runs. It is not disabled then: it would lose the focus. */
const whileBusy = {
  "aria-busy": true,
  "aria-disabled": true,
  onClick: (event: MouseEvent<HTMLButtonElement>) => event.preventDefault(),
};

/** A button. `busy` shows that its action runs, and keeps it from being pressed again. */
export function Button({
  look,
  size,
  icon: Icon,
  busy,
  className,
  children,
  disabled,
  ...props
}: ButtonProps) {
  return (
    <button
      type="button"
      className={cn(buttonStyle({ look, size }), className)}
      disabled={disabled}
      {...props}
      {...(busy && whileBusy)}
    >
      {busy ? (
        <LoaderCircle aria-hidden className="size-4 animate-turn" />
      ) : (
        Icon && <Icon aria-hidden className="size-4" />
      )}
      {children}
    </button>
  );
}

type IconButtonProps = Omit<ComponentProps<"button">, "aria-label"> &
  ButtonLook & {
    icon: LucideIcon;
    label: string;
    busy?: boolean;
    keys?: ReactNode;
    /** Without a tooltip, where the first Escape must not be taken by it, as for "close". */
    bare?: boolean;
  };

/** A button with an icon only; `label` is its name and its tooltip. */
export function IconButton(props: IconButtonProps) {
  const { icon: Icon, label, look = "quiet", size, busy, className, disabled, keys, bare, ...rest } = props;
  const square = size === "sm" ? "size-7 px-0" : size === "lg" ? "size-10 px-0" : "size-8 px-0";
  const Shown = busy ? LoaderCircle : Icon;
  const button = (
    <button
      type="button"
      aria-label={label}
      className={cn(buttonStyle({ look, size }), square, className)}
      disabled={disabled}
      {...rest}
      {...(busy && whileBusy)}
    >
      <Shown aria-hidden className={cn("size-4", busy && "animate-turn")} />
    </button>
  );
  return bare ? (
    button
  ) : (
    <Tooltip text={label} keys={keys}>
      {button}
    </Tooltip>
  );
}
