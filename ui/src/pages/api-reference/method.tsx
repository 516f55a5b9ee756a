import { Badge, type Tone } from "@/kit/badge";

const TONES: Record<string, Tone> = { GET: "idle", POST: "ok", PUT: "busy", PATCH: "busy", DELETE: "bad" };

/** The method of an operation. */
export function Method({ of }: { of: string }) {
  return (
    <Badge tone={TONES[of] ?? "idle"} className="h-5 justify-center rounded-sm px-1.5 font-mono">
      {of}
    </Badge>
  );
}
