import type { ReactNode } from "react";

/** Names and values, one below the other. */
export function Facts({ facts }: { facts: [ReactNode, ReactNode][] }) {
  return (
    <dl className="grid grid-cols-[fit-content(45%)_minmax(0,1fr)] items-baseline gap-x-6 gap-y-1.5 text-sm">
      {facts.map(([name, value], index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the facts of a thing keep their places
        <div key={index} className="contents">
          <dt className="min-w-28 text-ink-2">{name}</dt>
          <dd className="min-w-0 break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
