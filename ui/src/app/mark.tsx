import { useT } from "@/i18n";

/** The name with its sign. */
export function Mark() {
  const t = useT();
  return (
    <span className="inline-flex items-center gap-2 font-semibold">
      <svg viewBox="0 0 32 32" aria-hidden="true" className="size-6">
        <rect width="32" height="32" rx="7" className="fill-accent" />
        <path
          d="M7 24V10h18v14M7 14h18M16 14v5m-3 0h6v4h-6z"
          fill="none"
          className="stroke-on-accent"
          strokeWidth="2.4"
          strokeLinejoin="round"
        />
      </svg>
      {t.app}
    </span>
  );
}
