import { cn } from "./cn";

/** The place of something that loads; give it the size that the thing will have. It shows after 200 ms only. */
export function Skeleton({ className }: { className?: string }) {
  return (
    <div aria-hidden className={cn("animate-late", className)}>
      <div className="h-full min-h-3 w-full animate-pulse rounded-md bg-idle-soft" />
    </div>
  );
}
