import { type FormEvent, type ReactNode, useState } from "react";
import { useT } from "@/i18n";
import { Button } from "./button";
import { ConfirmDialog } from "./confirm-dialog";
import { Drawer } from "./drawer";
import { ErrorNote } from "./error-state";
import { stopsAtUnreadable } from "./unreadable";

type FormDrawerProps = {
  title: ReactNode;
  onClose: () => void;
  onSubmit: () => void;
  /** The verb on the button. */
  action: string;
  busy: boolean;
  /** Something was typed: closing asks first. */
  dirty: boolean;
  /** What is wrong with the form as a whole. */
  error?: unknown;
  children: ReactNode;
};

/** A form in a drawer. Closing it by mistake loses nothing that was typed. */
export function FormDrawer({
  title,
  onClose,
  onSubmit,
  action,
  busy,
  dirty,
  error,
  children,
}: FormDrawerProps) {
  const t = useT();
  const [asks, setAsks] = useState(false);
  const close = () => (dirty ? setAsks(true) : onClose());
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (!stopsAtUnreadable(event.currentTarget)) onSubmit();
  };
  return (
    <Drawer open onClose={close} title={title}>
      <form onSubmit={submit} noValidate className="flex min-h-full flex-col gap-5">
        {children}
        <div className="sticky -bottom-4 z-10 -mx-4 mt-auto -mb-4 flex flex-col gap-3 border-line border-t bg-raised px-4 py-3">
          {error !== undefined && <ErrorNote error={error} />}
          <div className="flex justify-end gap-2">
            <Button onClick={close}>{t.do.cancel}</Button>
            <Button type="submit" look="primary" busy={busy}>
              {action}
            </Button>
          </div>
        </div>
      </form>
      <ConfirmDialog
        open={asks}
        onClose={() => setAsks(false)}
        title={t.confirm.discard}
        consequence={t.confirm.discardText}
        action={t.confirm.discardDo}
        onConfirm={async () => onClose()}
      />
    </Drawer>
  );
}

/** A part of a form with a heading. */
export function FormPart({
  title,
  help,
  children,
}: {
  title: string;
  help?: ReactNode;
  children: ReactNode;
}) {
  return (
    <fieldset className="flex min-w-0 flex-col gap-4">
      <legend className="mb-3 font-semibold">{title}</legend>
      {help && <p className="-mt-3 max-w-[72ch] text-ink-2 text-sm">{help}</p>}
      {children}
    </fieldset>
  );
}
