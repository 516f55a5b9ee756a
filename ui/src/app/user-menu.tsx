import { useNavigate } from "@tanstack/react-router";
import { CircleUser, LogOut, UserRound } from "lucide-react";
import { useMe, useSignOut } from "@/data/session";
import { useLanguage, useT } from "@/i18n";
import type { Language } from "@/i18n/format";
import { cn } from "@/kit/cn";
import { forgetAccount } from "@/kit/kept";
import { Menu, type MenuItem } from "@/kit/menu";
import { toastError } from "@/kit/toast";
import { leave, tellTabs } from "./other-tabs";
import { setTheme, type Theme, useTheme } from "./theme";

const THEMES: Theme[] = ["system", "light", "dark"];
const LANGUAGES: Language[] = ["en", "de"];

/** The choices of the theme and of the language, for menus. */
export function useAppearanceItems(): MenuItem[] {
  const t = useT();
  const theme = useTheme();
  const { language, setLanguage } = useLanguage();
  return [
    {
      kind: "choice",
      label: t.shell.theme,
      value: theme,
      options: THEMES.map((value) => ({ value, label: t.shell.themes[value] })),
      onChoose: (to) => setTheme(THEMES.find((it) => it === to) ?? "system"),
    },
    { kind: "line" },
    {
      kind: "choice",
      label: t.shell.language,
      value: language,
      options: LANGUAGES.map((value) => ({ value, label: t.shell.languages[value] })),
      onChoose: (to) => setLanguage(to === "de" ? "de" : "en"),
    },
  ];
}

/** Who is signed in, with their profile, the theme, the language, and the way out. */
export function UserMenu({ folded }: { folded?: boolean }) {
  const t = useT();
  const me = useMe();
  const navigate = useNavigate();
  const signOut = useSignOut();
  const appearance = useAppearanceItems();
  if (!me) return null;
  const out = () =>
    signOut.mutate(undefined, {
      onError: (error) => toastError(error),
      onSuccess: () => {
        forgetAccount(me.id);
        tellTabs({ say: "out" });
        leave();
      },
    });
  const items: MenuItem[] = [
    { label: t.page.profile, icon: UserRound, onSelect: () => void navigate({ to: "/profile" }) },
    { kind: "line" },
    ...appearance,
    { kind: "line" },
    { label: t.do.signOut, icon: LogOut, onSelect: out },
  ];
  return (
    <Menu
      align="start"
      items={items}
      trigger={
        <button
          type="button"
          aria-label={folded ? t.shell.userMenu(me.username) : undefined}
          className={cn(
            "flex h-10 items-center gap-2.5 rounded-md px-2 text-left hover:bg-hover",
            folded ? "w-10 justify-center" : "w-full",
          )}
        >
          <CircleUser aria-hidden className="size-5 shrink-0 text-ink-2" />
          {!folded && (
            <span className="min-w-0 flex-1">
              <bdi className="block truncate text-sm leading-4">{me.username}</bdi>
              <span className="block truncate text-ink-3 text-xs">{t.role[me.role]}</span>
            </span>
          )}
        </button>
      }
    />
  );
}
