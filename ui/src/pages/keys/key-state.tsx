import type { Key } from "@/api/types";
import { StateBadge } from "@/kit/badge";
import { useMinute } from "@/kit/clock";
import { useT } from "./t";

const SOON = 7 * 86_400_000;

/** Whether a key can be used; a key that expires within a week says so. */
export function KeyState({ of }: { of: Key }) {
  const t = useT();
  const now = useMinute();
  if (of.status === "holder_disabled") return <StateBadge state="disabled">{t.holderDisabled}</StateBadge>;
  const soon = of.status === "active" && of.expires_at && Date.parse(of.expires_at) - now < SOON;
  if (soon) return <StateBadge state="warning">{t.soon}</StateBadge>;
  return <StateBadge state={of.status} />;
}
