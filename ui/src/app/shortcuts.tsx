import { Fragment, type ReactNode } from "react";
import { useMay } from "@/data/session";
import { useT } from "@/i18n";
import { Dialog } from "@/kit/dialog";
import { Kbd } from "@/kit/text";
import { PAGES } from "./pages";
import { COMMAND_KEYS } from "./shortcut-keys";

/** The list of all shortcuts. */
export function Shortcuts({ onClose }: { onClose: () => void }) {
  const t = useT();
  const may = useMay();
  const list = (rows: [string, ReactNode][]) => (
    <dl className="grid grid-cols-[1fr_auto] items-center gap-x-6 gap-y-1.5 text-sm">
      {rows.map(([what, keys]) => (
        <Fragment key={what}>
          <dt>{what}</dt>
          <dd className="flex items-center justify-end gap-1 text-ink-3 text-xs">{keys}</dd>
        </Fragment>
      ))}
    </dl>
  );
  return (
    <Dialog open onClose={onClose} title={t.shortcuts.title} size="md">
      <div className="grid gap-6 sm:grid-cols-2">
        <section className="flex flex-col gap-2">
          <h3 className="font-medium text-ink-2 text-sm">{t.shortcuts.everywhere}</h3>
          {list([
            [t.shortcuts.commands, <Kbd key="k">{COMMAND_KEYS}</Kbd>],
            [t.shortcuts.search, <Kbd key="k">/</Kbd>],
            [t.shortcuts.help, <Kbd key="k">?</Kbd>],
            [t.shortcuts.close, <Kbd key="k">{t.shortcuts.escape}</Kbd>],
          ])}
        </section>
        <section className="flex flex-col gap-2">
          <h3 className="font-medium text-ink-2 text-sm">{t.shortcuts.goTo}</h3>
          {list(
            PAGES.filter((it) => may(it.needs)).map((it) => [
              t.page[it.id],
              <Fragment key="k">
                <Kbd>g</Kbd> {t.shortcuts.next} <Kbd>{it.key}</Kbd>
              </Fragment>,
            ]),
          )}
        </section>
      </div>
    </Dialog>
  );
}
