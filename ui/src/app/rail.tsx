import { Dialog } from "@base-ui/react/dialog";
import { Link } from "@tanstack/react-router";
import { Menu as MenuIcon, PanelLeftClose, PanelLeftOpen, Search, X } from "lucide-react";
import { useState } from "react";
import { useMay } from "@/data/session";
import { useT } from "@/i18n";
import { IconButton } from "@/kit/button";
import { cn } from "@/kit/cn";
import { Kbd } from "@/kit/text";
import { Tooltip } from "@/kit/tooltip";
import { Mark } from "./mark";
import { PAGES, type PageEntry } from "./pages";
import { COMMAND_KEYS } from "./shortcut-keys";
import { UserMenu } from "./user-menu";

const FOLDED = "gantry.folded";
const GROUPS = ["run", "access", "machine"] as const;
const ROW =
  "flex h-8 items-center gap-2.5 rounded-md px-2 text-ink-2 text-sm hover:bg-hover hover:text-ink data-[status=active]:bg-accent-soft data-[status=active]:font-medium data-[status=active]:text-ink";

function keepFolded(to: boolean): void {
  try {
    localStorage.setItem(FOLDED, to ? "1" : "");
  } catch {
    // It lasts until the page is left, then.
  }
}

function firstFolded(): boolean {
  try {
    return localStorage.getItem(FOLDED) === "1";
  } catch {
    return false;
  }
}

function PageLink(props: { page: PageEntry; folded: boolean; onFollow?: (() => void) | undefined }) {
  const { page, folded, onFollow } = props;
  const t = useT();
  const name = t.page[page.id];
  const link = (
    <Link
      to={page.to}
      onClick={onFollow}
      activeOptions={{ exact: page.to === "/", includeSearch: false }}
      className={cn(ROW, folded && "w-8")}
    >
      <page.icon aria-hidden className="size-4 shrink-0" />
      <span className={folded ? "sr-only" : "truncate"}>{name}</span>
    </Link>
  );
  return folded ? <Tooltip text={name}>{link}</Tooltip> : link;
}

/** The pages that the role may see, in three groups. */
function PageLinks({ folded = false, onFollow }: { folded?: boolean; onFollow?: () => void }) {
  const t = useT();
  const may = useMay();
  return (
    <div className="flex flex-col gap-4">
      {GROUPS.map((group) => {
        const pages = PAGES.filter((it) => it.group === group && may(it.needs));
        if (pages.length === 0) return null;
        return (
          <div key={group}>
            <h2 className={cn("px-2 pb-1 text-ink-3 text-xs", folded && "sr-only")}>
              {t.shell.groups[group]}
            </h2>
            <ul className="flex flex-col gap-px">
              {pages.map((page) => (
                <li key={page.id}>
                  <PageLink page={page} folded={folded} onFollow={onFollow} />
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </div>
  );
}

/** The navigation at the left, on screens that are wide enough. */
export function Rail({ onCommands }: { onCommands: () => void }) {
  const t = useT();
  const [folded, setFolded] = useState(firstFolded);
  const fold = () => {
    keepFolded(!folded);
    setFolded(!folded);
  };
  return (
    <nav
      aria-label={t.shell.navigation}
      className={cn(
        "sticky top-0 hidden h-dvh shrink-0 flex-col border-line border-r bg-panel md:flex",
        folded ? "w-14" : "w-52",
      )}
    >
      <div
        className={cn("flex h-12 shrink-0 items-center px-3", folded ? "justify-center" : "justify-between")}
      >
        {!folded && <Mark />}
        <IconButton
          icon={folded ? PanelLeftOpen : PanelLeftClose}
          label={folded ? t.shell.unfold : t.shell.fold}
          size="sm"
          onClick={fold}
        />
      </div>
      <div className="px-3 pb-3">
        {folded ? (
          <IconButton icon={Search} label={t.shell.commands} keys={COMMAND_KEYS} onClick={onCommands} />
        ) : (
          <button
            type="button"
            onClick={onCommands}
            className="flex h-8 w-full items-center gap-2 rounded-md border border-line bg-bg px-2 text-ink-2 text-sm hover:border-line-strong"
          >
            <Search aria-hidden className="size-4" />
            <span className="flex-1 truncate text-left">{t.do.search}</span>
            <Kbd>{COMMAND_KEYS}</Kbd>
          </button>
        )}
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto px-3 pb-3">
        <PageLinks folded={folded} />
      </div>
      <div className="border-line border-t p-2">
        <UserMenu folded={folded} />
      </div>
    </nav>
  );
}

/** The same on small screens: a button that opens the navigation from below. */
export function MenuSheet({ onCommands }: { onCommands: () => void }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <div className="flex md:hidden">
      <Dialog.Root open={open} onOpenChange={setOpen}>
        <Dialog.Trigger render={<IconButton icon={MenuIcon} label={t.shell.navigation} />} />
        <Dialog.Portal>
          <Dialog.Backdrop className="fixed inset-0 z-40 bg-overlay" />
          <Dialog.Popup className="fixed inset-x-0 bottom-0 z-40 flex max-h-[88dvh] flex-col rounded-t-lg border border-line bg-panel shadow-float outline-none transition-transform duration-150 data-ending-style:translate-y-full data-starting-style:translate-y-full">
            <div className="flex h-12 shrink-0 items-center justify-between px-4">
              <Dialog.Title className="font-semibold">{t.app}</Dialog.Title>
              <span className="flex gap-1">
                <Dialog.Close
                  render={<IconButton icon={Search} label={t.shell.commands} onClick={onCommands} />}
                />
                <Dialog.Close render={<IconButton icon={X} label={t.do.close} bare />} />
              </span>
            </div>
            <nav aria-label={t.shell.navigation} className="min-h-0 overflow-y-auto px-3 pb-3">
              <PageLinks onFollow={() => setOpen(false)} />
            </nav>
            <div className="border-line border-t p-2">
              <UserMenu />
            </div>
          </Dialog.Popup>
        </Dialog.Portal>
      </Dialog.Root>
    </div>
  );
}
