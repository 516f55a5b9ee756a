import { ChevronRight } from "lucide-react";
import { createContext, type ReactNode, use, useEffect, useRef } from "react";
import { useT } from "@/i18n";
import { setPageTitle } from "./page-title";

/** What the shell puts before the breadcrumb (the menu's button, on small screens) and after the actions. */
export const HeaderSlots = createContext<{ before?: ReactNode; after?: ReactNode }>({});

type PageHeaderProps = {
  /** The last part of the breadcrumb, the page's heading, and the window's title. */
  title: string;
  /** What stands behind the title: a state, a copy button. */
  note?: ReactNode;
  /** The pages above this one, as links. */
  crumbs?: ReactNode[];
  actions?: ReactNode;
};

/** The top bar of a page: where it is, what it is called, and what can be done there. Every page begins with one. */
export function PageHeader({ title, note, crumbs = [], actions }: PageHeaderProps) {
  const t = useT();
  const { before, after } = use(HeaderSlots);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => setPageTitle(title), [title]);
  return (
    <header className="sticky top-0 z-20 flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1 border-line border-b bg-bg px-4 py-2 md:px-6">
      {before}
      <nav aria-label={t.shell.breadcrumb} className="min-w-0">
        <ol className="flex min-w-0 items-center gap-1.5">
          {crumbs.map((crumb, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the order of a breadcrumb is its identity
            <li key={index} className="flex shrink-0 items-center gap-1.5 text-ink-2">
              {crumb}
              <ChevronRight aria-hidden className="size-3.5 text-ink-3" />
            </li>
          ))}
          <li className="min-w-0">
            <h1
              ref={heading}
              tabIndex={-1}
              className="truncate font-semibold text-base outline-none"
              title={title}
            >
              <bdi>{title}</bdi>
            </h1>
          </li>
        </ol>
      </nav>
      {note}
      <div className="ml-auto flex flex-wrap items-center gap-2">
        {actions}
        {after}
      </div>
    </header>
  );
}

/** The content below a page's header: its width, and the space around and between its panels. */
export function PageBody({ children, narrow }: { children: ReactNode; narrow?: boolean }) {
  return (
    <div className={`mx-auto flex flex-col gap-4 p-4 md:p-6 ${narrow ? "max-w-3xl" : "max-w-[1600px]"}`}>
      {children}
    </div>
  );
}
