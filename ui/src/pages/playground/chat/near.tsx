import { type ReactNode, useEffect, useRef, useState } from "react";

const seen = new WeakMap<Element, () => void>();
let observer: IntersectionObserver | undefined;

function watch(element: Element, onNear: () => void): () => void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        observer?.unobserve(target);
        seen.get(target)?.();
      }
    },
    { rootMargin: "1200px 0px" },
  );
  seen.set(element, onNear);
  observer.observe(element);
  return () => observer?.unobserve(element);
}

/**
 * Draws something long only when it comes near: until then `text` stands there, which costs next to nothing and which the
 * browser's own search still finds.
 */
export function Near({ text, now, children }: { text: string; now: boolean; children: ReactNode }) {
  const [near, setNear] = useState(now);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (near || !place.current) return;
    return watch(place.current, () => setNear(true));
  }, [near]);
  if (near || now) return children;
  return (
    <div ref={place} className="overflow-hidden whitespace-pre-wrap break-words leading-6">
      {text}
    </div>
  );
}
