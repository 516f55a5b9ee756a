import { Skeleton } from "@/kit/skeleton";

/** The place of a page whose script is on its way. */
export function PagePending() {
  return (
    <div aria-busy className="flex flex-col gap-4 p-4 md:p-6">
      <Skeleton className="h-6 w-40" />
      <Skeleton className="h-24" />
      <Skeleton className="h-64" />
    </div>
  );
}
