import { Outlet, useLocation } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useT } from "@/i18n";
import { HeaderSlots } from "@/kit/page-header";
import { CommandMenu } from "./command-menu";
import { ConnectionBar } from "./connection-bar";
import { useKeepLive } from "./keep-live";
import { MenuSheet, Rail } from "./rail";
import { RightsBar } from "./rights-bar";
import { useShortcuts } from "./shortcut-keys";
import { Shortcuts } from "./shortcuts";
import { SignInAgain } from "./sign-in-again";
import { useTitle } from "./title";

/** What stands around every page after the sign-in. */
export function Shell() {
  const t = useT();
  const [open, setOpen] = useState<"commands" | "shortcuts" | null>(null);
  useKeepLive();
  useTitle();
  useShortcuts(setOpen);
  const { pathname } = useLocation();
  const openCommands = () => setOpen("commands");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the sheet closes when the page changes
  const slots = useMemo(
    () => ({ before: <MenuSheet key={pathname} onCommands={openCommands} /> }),
    [pathname],
  );
  return (
    <div className="min-h-dvh md:flex">
      <a
        href="#content"
        className="sr-only z-50 rounded-md bg-raised px-3 py-2 focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        {t.shell.skip}
      </a>
      <Rail onCommands={openCommands} />
      <div className="flex min-h-dvh min-w-0 flex-1 flex-col">
        <ConnectionBar />
        <RightsBar />
        <main id="content" tabIndex={-1} className="relative flex-1 outline-none">
          <HeaderSlots value={slots}>
            <Outlet />
          </HeaderSlots>
        </main>
      </div>
      <SignInAgain />
      {open === "commands" && <CommandMenu onClose={() => setOpen(null)} />}
      {open === "shortcuts" && <Shortcuts onClose={() => setOpen(null)} />}
    </div>
  );
}
