import { Languages } from "lucide-react";
import type { ReactNode } from "react";
import { useEffect } from "react";
import { useT } from "@/i18n";
import { IconButton } from "@/kit/button";
import { Menu } from "@/kit/menu";
import { setPageTitle } from "@/kit/page-title";
import { Mark } from "./mark";
import { useAppearanceItems } from "./user-menu";

/** The frame of the pages before the sign-in: one panel in the middle. */
export function GatewayCard({ title, children }: { title: string; children: ReactNode }) {
  const t = useT();
  const items = useAppearanceItems();
  useEffect(() => {
    setPageTitle(title);
    document.title = `${title} · ${t.app}`;
  }, [title, t]);
  return (
    <main className="grid min-h-dvh grid-rows-[1fr_auto_2fr] justify-items-center p-4">
      <div className="row-start-2 w-full max-w-md">
        <div className="mb-4 flex items-center justify-between">
          <Mark />
          <Menu
            items={items}
            trigger={
              <IconButton icon={Languages} label={`${t.shell.theme}, ${t.shell.language}`} size="sm" />
            }
          />
        </div>
        <div className="flex flex-col gap-4 rounded-lg border border-line bg-panel p-5 sm:p-6">
          <h1 className="font-semibold text-xl">{title}</h1>
          {children}
        </div>
      </div>
    </main>
  );
}
