import { WifiOff } from "lucide-react";
import { useFormat, useT } from "@/i18n";
import { Button } from "@/kit/button";
import { useNow } from "@/kit/clock";
import { useConnection } from "@/live/connection";
import { tryNow } from "@/live/events";

/** Says since when the gateway has not answered, and when it is tried next. */
export function ConnectionBar() {
  const { lostSince, nextTry } = useConnection();
  if (lostSince === null) return null;
  return <Lost since={lostSince} nextTry={nextTry} />;
}

function Lost({ since, nextTry }: { since: number; nextTry: number | null }) {
  const t = useT();
  const format = useFormat();
  const now = useNow();
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-warn-solid border-b bg-warn-soft px-4 py-1.5 text-sm md:px-6">
      <WifiOff aria-hidden className="size-4 text-warn" />
      <span role="status">{t.connection.lost(format.time(since))}</span>
      <span className="text-ink-2">
        {nextTry === null
          ? t.connection.trying
          : t.connection.retryIn(Math.max(0, Math.ceil((nextTry - now) / 1000)))}
      </span>
      <Button size="sm" className="ml-auto" onClick={tryNow}>
        {t.connection.retry}
      </Button>
    </div>
  );
}
