import { useT } from "./t";

/** Explains why a sign-in that succeeded left no session. */
export function NoCookie() {
  const t = useT();
  return (
    <div role="alert" className="rounded-md border border-warn-solid bg-warn-soft px-3 py-2 text-sm">
      <p className="font-medium">{t.noCookieTitle}</p>
      <p>{location.protocol === "http:" ? t.insecure : t.blocked}</p>
    </div>
  );
}
