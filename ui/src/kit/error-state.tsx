import { RotateCw, TriangleAlert } from "lucide-react";
import { ApiError, NetworkError, PartError } from "@/api/errors";
import { type Dictionary, useT } from "@/i18n";
import { Button } from "./button";
import { CopyButton } from "./copy";
import { sentence } from "./sentence";

/** What an error says to people: what happened, and what to do. */
export function describe(
  error: unknown,
  t: Dictionary,
): { message: string; todo?: string; requestId: string | null } {
  if (error instanceof NetworkError)
    return { message: t.errors.network, todo: t.errors.networkDo, requestId: null };
  if (error instanceof PartError) return { message: t.errors.part, todo: t.errors.partDo, requestId: null };
  if (error instanceof ApiError) {
    if (error.code === "unauthenticated") return { message: t.signedOut.short, requestId: error.requestId };
    if (error.code === "changed_meanwhile")
      return { message: t.changed.text, todo: t.changed.look, requestId: error.requestId };
    const todo =
      error.status === 403 ? t.errors.forbidden : error.status === 429 ? t.errors.tooMany : undefined;
    return { message: sentence(error.message), todo, requestId: error.requestId };
  }
  return { message: error instanceof Error ? error.message : String(error), requestId: null };
}

/** Shows the id of a request, by which an operator finds the request in the gateway's log. */
export function RequestId({ id }: { id: string }) {
  const t = useT();
  return (
    <span className="inline-flex items-center gap-1 text-ink-2 text-xs">
      {t.word.requestId} <code className="break-all font-mono">{id}</code>
      <CopyButton text={id} />
    </span>
  );
}

/** An error in place: beside the button or in the dialog where the action was. */
export function ErrorNote({ error }: { error: unknown }) {
  const t = useT();
  const { message, todo, requestId } = describe(error, t);
  return (
    <div role="alert" className="flex gap-2 rounded-md border border-bad-solid bg-bad-soft px-3 py-2 text-sm">
      <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0">
        <p className="break-words">{message}</p>
        {todo && <p className="text-ink-2">{todo}</p>}
        {requestId && <RequestId id={requestId} />}
      </div>
    </div>
  );
}

/** Stands where something could not be loaded: what happened, what to do, the request id. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const t = useT();
  const { message, todo, requestId } = describe(error, t);
  return (
    <div role="alert" className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-10 text-center">
      <TriangleAlert aria-hidden className="size-6 text-bad" />
      <p className="font-medium">{t.errors.failed}</p>
      <p className="break-words text-ink-2 text-sm">{message}</p>
      {todo && <p className="text-ink-2 text-sm">{todo}</p>}
      {requestId && <RequestId id={requestId} />}
      {onRetry && (
        <Button icon={RotateCw} onClick={onRetry}>
          {t.do.retry}
        </Button>
      )}
    </div>
  );
}
