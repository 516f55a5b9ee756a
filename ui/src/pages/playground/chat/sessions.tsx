import { MessageSquarePlus, Trash2 } from "lucide-react";
import { useEffect } from "react";
import { useChats } from "@/data/chats";
import { Button } from "@/kit/button";
import { ErrorState } from "@/kit/error-state";
import { ButtonLink } from "@/kit/link";
import { SearchInput } from "@/kit/search-input";
import { Skeleton } from "@/kit/skeleton";
import { useUrl } from "@/kit/url-state";
import { useT } from "../t";
import type { ToDelete } from "./delete-chats";
import { SessionRow } from "./session-row";

type SessionsProps = { open: string[]; onDelete: (what: ToDelete) => void };

/** The user's chats: search, open, and what the menu of each does. */
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
              <SessionRow key={it.id} chat={it} open={open.includes(it.id)} onDelete={() => onDelete(it)} />
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
