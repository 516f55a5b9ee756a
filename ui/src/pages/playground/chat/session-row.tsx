import { useQueryClient } from "@tanstack/react-query";
import { Check, Ellipsis, FileDown, Pencil, Pin, PinOff, Trash2, X } from "lucide-react";
import { type FormEvent, type RefObject, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { type Chat, type ChatSummary, readChat, useChangeChat } from "@/data/chats";
import { useT as useCommonT, useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { IconButton } from "@/kit/button";
import { useMinute } from "@/kit/clock";
import { cn } from "@/kit/cn";
import { TextInput } from "@/kit/inputs";
import { Link } from "@/kit/link";
import { Menu, type MenuItem } from "@/kit/menu";
import { toastError } from "@/kit/toast";
import { useT } from "../t";
import { markdownOfTurns, saveJson, saveMarkdown } from "./save-chat";
import { titleOf } from "./title";
import { pathOf } from "./tree";

/** A chat in the list: it is opened by its title, and its menu renames, pins, saves and deletes it. */
export function SessionRow(props: { chat: ChatSummary; open: boolean; onDelete: () => void }) {
  const { chat, open, onDelete } = props;
  const t = useT();
  const c = useCommonT();
  const client = useQueryClient();
  const change = useChangeChat();
  const row = useRef<HTMLLIElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [renaming, setRenaming] = useState(false);
  const endRenaming = () => {
    // The link has to be there again before it can get the focus.
    flushSync(() => setRenaming(false));
    row.current?.querySelector("a")?.focus();
  };
  const save = (as: (chat: Chat) => void) => void readChat(client, chat.id).then(as).catch(toastError);
  const pin = () =>
    change.mutate({ id: chat.id, body: { pinned: !chat.pinned } }, { onError: (error) => toastError(error) });
  const items: MenuItem[] = [
    { label: t.sessions.rename, icon: Pencil, onSelect: () => setRenaming(true) },
    {
      label: chat.pinned ? t.sessions.unpin : t.sessions.pin,
      icon: chat.pinned ? PinOff : Pin,
      onSelect: pin,
    },
    { kind: "line" },
    {
      label: t.copy.saveMarkdown,
      icon: FileDown,
      onSelect: () => save((it) => saveMarkdown(it.title, markdownOfTurns(pathOf(it.messages), t.turn))),
    },
    { label: t.copy.saveJson, icon: FileDown, onSelect: () => save(saveJson) },
    { kind: "line" },
    { label: t.sessions.delete, icon: Trash2, danger: true, onSelect: onDelete },
  ];
  return (
    <li
      ref={row}
      className={cn(
        "group/row relative flex min-w-0 items-center rounded-md [contain-intrinsic-size:auto_48px] [content-visibility:auto] hover:bg-hover",
        open && "bg-accent-soft hover:bg-accent-soft",
      )}
    >
      {renaming ? (
        <Rename chat={chat} input={input} onEnd={endRenaming} />
      ) : (
        <LinkToChat chat={chat} open={open} />
      )}
      <Menu
        focusNext={renaming ? input : undefined}
        items={items}
        trigger={
          <IconButton
            icon={Ellipsis}
            size="sm"
            label={`${c.do.more}: ${t.sessions.named(chat.title)}`}
            className={cn(
              "absolute top-2 right-1 border-line bg-panel opacity-0 focus-visible:opacity-100 group-focus-within/row:opacity-100 group-hover/row:opacity-100 data-popup-open:opacity-100 [@media(hover:none)]:opacity-100",
              renaming && "invisible",
            )}
          />
        }
      />
    </li>
  );
}

function LinkToChat({ chat, open }: { chat: ChatSummary; open: boolean }) {
  const t = useT();
  const format = useFormat();
  const now = useMinute();
  return (
    <Link
      to="/playground/$id"
      params={{ id: chat.id }}
      search={(old: Record<string, string | undefined>) => ({ q: old.q, panel: old.panel })}
      aria-current={open ? "page" : undefined}
      className="min-w-0 flex-1 px-2 py-1.5 text-ink -outline-offset-2 hover:no-underline"
    >
      <span className="flex items-center gap-1 text-sm">
        {chat.pinned && (
          <Pin role="img" aria-label={t.sessions.pinned} className="size-3.5 shrink-0 text-ink-2" />
        )}
        <span dir="auto" className="min-w-0 flex-1 truncate" title={chat.title}>
          {chat.title}
        </span>
      </span>
      <span className="flex gap-2 text-ink-2 text-xs">
        <bdi className="truncate" title={chat.model_name}>
          {chat.model_name}
        </bdi>
        {chat.answering ? (
          <span className="ml-auto flex shrink-0 items-center gap-1 text-busy">
            <StateShape tone="busy" />
            {t.sessions.answering}
          </span>
        ) : (
          <span className="ml-auto shrink-0" title={format.dateTime(chat.updated_at)}>
            {format.relative(chat.updated_at, Math.max(now, chat.updated_at))}
          </span>
        )}
      </span>
    </Link>
  );
}

type RenameProps = { chat: ChatSummary; input: RefObject<HTMLInputElement | null>; onEnd: () => void };

/** In place of a chat's title: a field for another one. Enter saves it, Escape leaves it. */
function Rename({ chat, input, onEnd }: RenameProps) {
  const t = useT();
  const c = useCommonT();
  const change = useChangeChat();
  const [typed, setTyped] = useState(chat.title);
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (change.isPending) return;
    const title = titleOf(typed);
    if (typed === chat.title || title === chat.title) onEnd();
    else
      change.mutate(
        { id: chat.id, body: { title } },
        { onSuccess: onEnd, onError: (error) => toastError(error) },
      );
  };
  return (
    <form onSubmit={save} className="flex min-w-0 flex-1 items-center gap-1 px-1 py-2">
      <TextInput
        ref={input}
        dir="auto"
        aria-label={t.sessions.newTitle(chat.title)}
        placeholder={t.sessions.automatic}
        maxLength={100}
        autoComplete="off"
        value={typed}
        onValue={setTyped}
        onFocus={(event) => event.currentTarget.select()}
        onKeyDown={(event) => {
          if (event.key !== "Escape" || event.nativeEvent.isComposing) return;
          // The drawer that the list is in on narrow screens stays open.
          event.stopPropagation();
          onEnd();
        }}
      />
      <IconButton icon={Check} size="sm" label={c.do.save} type="submit" busy={change.isPending} />
      <IconButton icon={X} size="sm" label={c.do.cancel} onClick={onEnd} />
    </form>
  );
}
