import { useState } from "react";
import type { Item } from "@/api/types";
import { useEndOtherSessions, useEndOwnSession, useOwnSessions } from "@/data/session";
import { useFormat } from "@/i18n";
import { Button } from "@/kit/button";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { EmptyState } from "@/kit/empty-state";
import { Panel } from "@/kit/panel";
import { type Column, Table } from "@/kit/table";
import { RelativeTime } from "@/kit/text";
import { toast } from "@/kit/toast";
import { useT } from "./t";

type Session = Item<"listOwnSessions">;

/** Where one is signed in. */
export function Sessions() {
  const t = useT().sessions;
  const format = useFormat();
  const sessions = useOwnSessions();
  const end = useEndOwnSession();
  const endOthers = useEndOtherSessions();
  const [gone, setGone] = useState<Session | "others" | null>(null);
  const others = sessions.data?.some((it) => !it.current);
  const columns: Column<Session>[] = [
    { id: "begun", head: t.begun, cell: (it) => format.dateMinute(it.created_at) },
    {
      id: "used",
      head: t.used,
      cell: (it) => (it.current ? t.current : <RelativeTime at={it.last_used_at} />),
    },
    { id: "expires", head: t.expires, cell: (it) => <RelativeTime at={it.expires_at} />, wide: true },
  ];
  return (
    <Panel
      title={t.title}
      note={t.note}
      actions={others ? <Button onClick={() => setGone("others")}>{t.endOthers}</Button> : undefined}
      flush
    >
      <Table
        label={t.title}
        columns={columns}
        list={sessions}
        rowKey={(it) => it.id}
        empty={<EmptyState title={t.none} />}
        actions={(it) =>
          !it.current && (
            <Button size="sm" look="danger" onClick={() => setGone(it)}>
              {t.end}
            </Button>
          )
        }
      />
      <ConfirmDialog
        open={gone !== null}
        onClose={() => setGone(null)}
        title={gone === "others" ? t.endOthersTitle : t.endTitle}
        consequence={t.endText}
        action={gone === "others" ? t.endOthers : t.end}
        onConfirm={async () => {
          if (gone === null) return;
          await (gone === "others" ? endOthers.mutateAsync() : end.mutateAsync(gone.id));
          toast(gone === "others" ? t.othersEnded : t.ended);
        }}
      />
    </Panel>
  );
}
