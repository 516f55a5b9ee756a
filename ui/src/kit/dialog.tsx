import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { useT } from "@/i18n";
import { IconButton } from "./button";
import { cn } from "./cn";
import { useFocusBack } from "./focus-back";

type DialogProps = {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  description?: ReactNode;
  children?: ReactNode;
  /** The buttons, from left to right; the one that does it is the last. */
  footer?: ReactNode;
  size?: "sm" | "md" | "lg";
  /** Can't be closed by Escape or by a click beside it, as where something typed would be lost. */
  stays?: boolean;
};

const SIZES = { sm: "max-w-lg", md: "max-w-2xl", lg: "max-w-4xl" };
const OVERLAY =
  "fixed inset-0 z-40 bg-overlay transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0";

/** A dialog. The page behind it is out of reach until it is closed. */
export function Dialog({
  open,
  onClose,
  title,
  description,
  children,
  footer,
  size = "sm",
  stays,
}: DialogProps) {
  const t = useT();
  const [popup, focusBack] = useFocusBack();
  return (
    <Base.Root
      open={open}
      disablePointerDismissal={stays}
      onOpenChange={(to, details) => {
        if (to || (stays && details.reason === "escape-key")) return;
        onClose();
      }}
    >
      <Base.Portal>
        <Base.Backdrop className={OVERLAY} />
        <Base.Viewport className="fixed inset-0 z-40 flex items-start justify-center overflow-y-auto p-3 sm:p-[8vh]">
          <Base.Popup
            ref={popup}
            finalFocus={focusBack}
            className={cn(
              "relative w-full rounded-lg border border-line bg-raised shadow-float outline-none transition-[opacity,transform] duration-150 data-ending-style:opacity-0 data-starting-style:translate-y-1 data-starting-style:opacity-0",
              SIZES[size],
            )}
          >
            <div className="flex items-start gap-3 px-5 pt-4">
              <Base.Title className="min-w-0 flex-1 break-words py-1 pr-7 font-semibold text-lg">
                {title}
              </Base.Title>
            </div>
            <div className={cn("flex flex-col gap-4 px-5 pb-5", description ? "pt-1" : "pt-3")}>
              {description && (
                <Base.Description className="max-w-[72ch] text-ink-2">{description}</Base.Description>
              )}
              {children}
            </div>
            {footer && (
              <div className="flex flex-wrap justify-end gap-2 border-line border-t px-5 py-3">{footer}</div>
            )}
            {/* The last in the order of focus: the first is what the dialog is for. */}
            {!stays && (
              <Base.Close
                render={
                  <IconButton icon={X} label={t.do.close} size="sm" bare className="absolute top-4 right-3" />
                }
              />
            )}
          </Base.Popup>
        </Base.Viewport>
      </Base.Portal>
    </Base.Root>
  );
}
