import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { useT } from "@/i18n";
import { IconButton } from "./button";
import { useFocusBack } from "./focus-back";

type DrawerProps = {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
  actions?: ReactNode;
};

/** A panel that comes in from the right (from below on small screens) and shows one thing of a list in detail. */
export function Drawer({ open, onClose, title, children, actions }: DrawerProps) {
  const t = useT();
  const [popup, focusBack] = useFocusBack();
  return (
    <Base.Root open={open} onOpenChange={(to) => !to && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-overlay transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Base.Popup
          ref={popup}
          finalFocus={focusBack}
          className="fixed inset-x-0 bottom-0 z-40 flex max-h-[88dvh] flex-col rounded-t-lg border border-line bg-raised shadow-float outline-none transition-transform duration-150 data-ending-style:translate-y-full data-starting-style:translate-y-full md:inset-y-0 md:right-0 md:left-auto md:max-h-none md:w-[min(560px,92vw)] md:rounded-none md:border-y-0 md:border-r-0 md:data-ending-style:translate-x-full md:data-ending-style:translate-y-0 md:data-starting-style:translate-x-full md:data-starting-style:translate-y-0"
        >
          <div className="flex min-h-12 items-center gap-2 border-line border-b px-4 py-2">
            <Base.Title className="min-w-0 flex-1 truncate font-semibold">{title}</Base.Title>
            {actions}
            <Base.Close render={<IconButton icon={X} label={t.do.close} bare size="sm" />} />
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto p-4">{children}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
