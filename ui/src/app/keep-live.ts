import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { watchCalls } from "@/api/client";
import { sessionKeys } from "@/data/query-keys";
import { useMay, useMe } from "@/data/session";
import { gatewayAnswered, gatewayLost, tryNow } from "@/live/events";
import { shareEvents } from "@/live/leader";
import { useSharedSession } from "./other-tabs";
import { signedOut, useSignedOut } from "./signed-out";

/** Keeps the cache true while somebody is signed in, and notices when the session or the gateway is gone. */
export function useKeepLive(): void {
  const client = useQueryClient();
  const me = useMe();
  const events = useMay()("streamEvents") ? "streamEvents" : "streamOwnEvents";
  const out = useSignedOut();
  useEffect(() => {
    watchCalls({
      signedOut: () => signedOut(true),
      // What is shown would not be refused: somebody changed the role, or another tab signed in as somebody else.
      forbidden: () => void client.invalidateQueries({ queryKey: sessionKeys.me }),
      answered: gatewayAnswered,
      lost: gatewayLost,
    });
    // The browser knows when it has a network again.
    window.addEventListener("online", tryNow);
    return () => {
      watchCalls({});
      window.removeEventListener("online", tryNow);
    };
  }, [client]);
  useSharedSession(me?.username);
  const id = me?.id;
  useEffect(() => {
    if (id === undefined || out) return;
    const end = new AbortController();
    void shareEvents(client, events, id, end.signal);
    return () => end.abort();
  }, [client, id, events, out]);
}
