import type { ReactNode } from "react";
import { Drawer } from "./drawer";
import { EmptyState } from "./empty-state";
import { ErrorState } from "./error-state";
import { Skeleton } from "./skeleton";

/** What the gateway says of one record: `null`, there is none. */
export type Found<T> = { data: T | null | undefined; error: unknown; refetch: () => unknown };

type RecordDrawerProps<T> = {
  title: ReactNode;
  found: Found<T>;
  /** What is said where the record is gone, or is not for the user. */
  gone: string;
  onClose: () => void;
  children: (record: T) => ReactNode;
};

/** One record of a list in a drawer, or why it is not shown. */
export function RecordDrawer<T>({ title, found, gone, onClose, children }: RecordDrawerProps<T>) {
  const { data, error, refetch } = found;
  return (
    <Drawer open onClose={onClose} title={title}>
      {error && !data ? (
        <ErrorState error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <Skeleton className="h-40" />
      ) : data === null ? (
        <EmptyState title={gone} />
      ) : (
        children(data)
      )}
    </Drawer>
  );
}
