import type { Schema } from "@/api/types";
import { useCreatePasswordLink } from "@/data/users";
import { useT as useCommonT, useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { Command } from "@/kit/code-block";
import { Dialog } from "@/kit/dialog";
import { ErrorNote } from "@/kit/error-state";
import { useT } from "./t";

type Of = { id: number; username: string };

/** Makes a link with which the user sets a new password. */
export function PasswordLink({ of, onClose }: { of: Of; onClose: () => void }) {
  const t = useT();
  const c = useCommonT();
  const make = useCreatePasswordLink();
  if (make.data) return <MadeLink name={of.username} link={make.data} onClose={onClose} />;
  return (
    <Dialog
      open
      onClose={onClose}
      title={t.link.title(of.username)}
      description={t.link.about}
      footer={
        <>
          <Button onClick={onClose}>{c.do.cancel}</Button>
          <Button look="primary" busy={make.isPending} onClick={() => make.mutate(of.id)}>
            {t.link.make}
          </Button>
        </>
      }
    >
      {make.error && <ErrorNote error={make.error} />}
    </Dialog>
  );
}

type MadeLinkProps = { name: string; link: Schema<"PasswordLink">; onClose: () => void };

/** Shows a link, this once. */
export function MadeLink({ name, link, onClose }: MadeLinkProps) {
  const t = useT();
  const format = useFormat();
  return (
    <Dialog
      open
      stays
      onClose={onClose}
      title={t.link.madeTitle(name)}
      description={t.link.madeText(format.dateMinute(link.expires_at))}
      footer={
        <Button look="primary" onClick={onClose}>
          {t.link.done}
        </Button>
      }
    >
      <Command code={`${location.origin}${link.path}`} label={t.link.copy} />
    </Dialog>
  );
}
