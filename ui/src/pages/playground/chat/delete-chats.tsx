import { useQueryClient } from "@tanstack/react-query";
import { type ChatSummary, forgetChats, useDeleteAllChats, useDeleteChat } from "@/data/chats";
import { ConfirmDialog } from "@/kit/confirm-dialog";
import { useT } from "../t";
import { forget } from "./kept";

/** One chat, or all of them. */
export type ToDelete = ChatSummary | "all";

type DeleteChatsProps = {
  what: ToDelete | null;
  onClose: () => void;
  /** `null`: all are gone. It ends once none of them is shown. */
  onDeleted: (id: string | null) => Promise<void>;
};

/** Asks before chats are deleted. */
export function DeleteChats({ what, onClose, onDeleted }: DeleteChatsProps) {
  const t = useT();
  const client = useQueryClient();
  const remove = useDeleteChat();
  const clear = useDeleteAllChats();
  const one = what === "all" || what === null ? null : what;
  return (
    <ConfirmDialog
      open={what !== null}
      onClose={onClose}
      title={one ? t.sessions.deleteTitle(one.title) : t.sessions.clearTitle}
      consequence={one ? t.sessions.deleteText(one.message_count) : t.sessions.clearText}
      action={one ? t.sessions.delete : t.sessions.clear}
      onConfirm={async () => {
        if (one) await remove.mutateAsync(one.id);
        else await clear.mutateAsync();
        await forget(one?.id);
        await onDeleted(one?.id ?? null);
        forgetChats(client, one?.id ?? null);
      }}
    />
  );
}
