import { MessageSquarePlus, Trash2 } from "lucide-react";
import { useEffect } from "react";
import { type ChatSummary, useChats } from "@/data/chats";
import { useT as useCommonT, useFormat } from "@/i18n";
import { StateShape } from "@/kit/badge";
import { Button, IconButton } from "@/kit/button";
import { useMinute } from "@/kit/clock";
import { cn } from "@/kit/cn";
import { ErrorState } from "@/kit/error-state";
import { ButtonLink, Link } from "@/kit/link";
import { SearchInput } from "@/kit/search-input";
import { Skeleton } from "@/kit/skeleton";
import { useUrl } from "@/kit/url-state";
import { useT } from "../t";
import type { ToDelete } from "./delete-chats";

type SessionsProps = { open: string[]; onDelete: (what: ToDelete) => void };

/** The user's chats: search, open, delete. */
export function Sessions({ open, onDelete }: SessionsProps) {
  const t = useT();
  const { q = "" } = useUrl();
  const chats = useChats();
  const all = chats.data?.pages.flatMap((it) => it.items) ?? [];
  const wanted = q.trim().toLocaleLowerCase();
  const shown = wanted
    ? all.filter((it) => `${it.title} ${it.model_name}`.toLocaleLowerCase().includes(wanted))
    : all;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = chats;
  useEffect(() => {
    // The gateway doesn't search in titles, so all of them must be here.
    if (wanted && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [wanted, hasNextPage, isFetchingNextPage, fetchNextPage]);
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-2">
      <div className="flex flex-col gap-2 px-3 pt-3 [&_[role=search]]:w-full">
        <ButtonLink to="/playground" size="sm" className="justify-start">
          <MessageSquarePlus aria-hidden className="size-4" />
          {t.sessions.fresh}
        </ButtonLink>
        <SearchInput label={t.sessions.search} />
      </div>
      <nav aria-label={t.sessions.label} className="min-h-0 flex-1 overflow-y-auto px-2 pb-2">
        {chats.error && !chats.data ? (
          <ErrorState error={chats.error} onRetry={chats.refetch} />
        ) : !chats.data ? (
          <Skeleton className="h-40" />
        ) : shown.length === 0 ? (
          <p className="px-2 py-6 text-center text-ink-3 text-sm">
            {wanted ? t.sessions.nothing : t.sessions.empty}
          </p>
        ) : (
          <ul className="flex flex-col">
            {shown.map((it) => (
              <Row key={it.id} chat={it} open={open.includes(it.id)} onDelete={() => onDelete(it)} />
            ))}
          </ul>
        )}
        {hasNextPage && !wanted && (
          <Button size="sm" look="quiet" busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {t.sessions.more}
          </Button>
        )}
      </nav>
      {all.length > 0 && (
        <div className="border-line border-t p-2">
          <Button size="sm" look="quiet" icon={Trash2} onClick={() => onDelete("all")}>
            {t.sessions.clear}
          </Button>
        </div>
      )}
    </div>
  );
}

function Row({ chat, open, onDelete }: { chat: ChatSummary; open: boolean; onDelete: () => void }) {
  const t = useT();
  const c = useCommonT();
  const format = useFormat();
  const now = useMinute();
  return (
    <li
      className={cn(
        "group/row relative flex min-w-0 items-center rounded-md [contain-intrinsic-size:auto_48px] [content-visibility:auto] hover:bg-hover",
        open && "bg-accent-soft hover:bg-accent-soft",
      )}
    >
      <Link
        to="/playground/$id"
        params={{ id: chat.id }}
        search={(old: Record<string, string | undefined>) => ({ q: old.q, panel: old.panel })}
        aria-current={open ? "page" : undefined}
        className="min-w-0 flex-1 px-2 py-1.5 text-ink -outline-offset-2 hover:no-underline"
      >
        <span dir="auto" className="block truncate text-sm" title={chat.title}>
          {chat.title}
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
      <IconButton
        icon={Trash2}
        size="sm"
        label={`${c.do.delete}: ${t.sessions.named(chat.title)}`}
        className="absolute top-2 right-1 border-line bg-panel opacity-0 focus-visible:opacity-100 group-focus-within/row:opacity-100 group-hover/row:opacity-100 [@media(hover:none)]:opacity-100"
        onClick={onDelete}
      />
    </li>
  );
}
