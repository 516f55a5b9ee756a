import { useRouter } from "@tanstack/react-router";
import { RotateCw, TriangleAlert } from "lucide-react";
import { useEffect, useState } from "react";
import { call } from "@/api/client";
import { ApiError, NetworkError, PartError } from "@/api/errors";
import { useT } from "@/i18n";
import { Button } from "@/kit/button";
import { CodeBlock } from "@/kit/code-block";
import { ErrorState } from "@/kit/error-state";
import { useConnection } from "@/live/connection";
import { useAskedAgain } from "./asked-again";
import { loadAgain } from "./load-again";
import { PagePending } from "./pending";

const asError = (thrown: unknown) => (thrown instanceof Error ? thrown : new Error(String(thrown)));

/** Takes the place of a page that failed; the others go on working. */
export function PageError({ error: thrown, reset }: { error: unknown; reset: () => void }) {
  const error = asError(thrown);
  const t = useT();
  const router = useRouter();
  const again = () => {
    reset();
    void router.invalidate();
  };
  useAskedAgain(thrown, again);
  if (error instanceof PartError) return <PartLost error={error} />;
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

/**
 * The part of a page could not be fetched. Most likely the gateway was upgraded: then a load anew brings the parts that it has now.
 * A gateway that is gone has nothing to load, so this waits until it answers.
 */
function PartLost({ error }: { error: PartError }) {
  const { lostSince } = useConnection();
  const [tried, setTried] = useState(false);
  useEffect(() => {
    if (lostSince !== null) return;
    let current = true;
    call("getLiveness").then(
      () => current && !loadAgain() && setTried(true),
      () => current && setTried(true),
    );
    return () => {
      current = false;
    };
  }, [lostSince]);
  if (lostSince !== null) return <ErrorState error={new NetworkError(error.message)} />;
  return tried ? <ErrorState error={error} onRetry={() => location.reload()} /> : <PagePending />;
}
