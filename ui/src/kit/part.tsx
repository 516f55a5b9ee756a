import { RotateCw } from "lucide-react";
import { type ComponentType, type ReactNode, useEffect, useState } from "react";
import { fetchPart } from "@/api/part";
import { useT } from "@/i18n";
import { Button } from "./button";

/**
 * Makes a component whose script is fetched when it is first shown: `part(() => import("./plots"))`. If it can't be fetched, its
 * place says so and has a button; the page around it stays, with all that was typed, which an error boundary would throw away.
 */
export function part<P extends object>(load: () => Promise<{ default: ComponentType<P> }>) {
  let here: ComponentType<P> | undefined;
  // biome-ignore lint/correctness/noComponentHookFactories: it is called once for a part, outside of components
  return function Part(props: P & { waiting: ReactNode }) {
    const [, redraw] = useState(0);
    const [lost, setLost] = useState(false);
    useEffect(() => {
      if (here || lost) return;
      let current = true;
      fetchPart(load).then(
        (got) => {
          here = got.default;
          if (current) redraw((it) => it + 1);
        },
        () => current && setLost(true),
      );
      return () => {
        current = false;
      };
    }, [lost]);
    if (lost) return <Lost onRetry={() => setLost(false)} />;
    const Here = here;
    return Here ? <Here {...props} /> : props.waiting;
  };
}

function Lost({ onRetry }: { onRetry: () => void }) {
  const t = useT();
  return (
    <div role="alert" className="flex flex-wrap items-center gap-x-3 gap-y-1 text-ink-2 text-sm">
      {t.errors.part}
      <Button size="sm" icon={RotateCw} onClick={onRetry}>
        {t.do.retry}
      </Button>
    </div>
  );
}
