import { useRouter } from "@tanstack/react-router";
import { RotateCw, TriangleAlert } from "lucide-react";
import { ApiError, NetworkError } from "@/api/errors";
import { useT } from "@/i18n";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { ErrorState } from "@/kit/error-state";

/** A part of the script could not be fetched: the gateway was upgraded since the page was opened, or it is gone. */
const isMissingPart = (error: Error) =>
  /dynamically imported module|Importing a module script/.test(error.message);

const asError = (thrown: unknown) => (thrown instanceof Error ? thrown : new Error(String(thrown)));

/** Takes the place of a page that failed; the others go on working. */
export function PageError({ error: thrown, reset }: { error: unknown; reset: () => void }) {
  const error = asError(thrown);
  const t = useT();
  const router = useRouter();
  const again = () => {
    if (isMissingPart(error)) return location.reload();
    reset();
    void router.invalidate();
  };
  if (error instanceof ApiError || error instanceof NetworkError)
    return <ErrorState error={error} onRetry={again} />;
  return (
    <div role="alert" className="mx-auto flex max-w-xl flex-col items-center gap-3 px-4 py-12 text-center">
      <TriangleAlert aria-hidden className="size-6 text-bad" />
      <h1 className="font-semibold text-lg">{t.errors.crashed}</h1>
      <p className="text-ink-2">{t.errors.crashedDo}</p>
      <div className="w-full text-left">
        <CodeBlock
          snippets={[{ id: "error", label: t.word.error, code: `${error.message}\n${error.stack ?? ""}` }]}
        />
      </div>
      <Button icon={RotateCw} onClick={again}>
        {t.do.retry}
      </Button>
    </div>
  );
}
