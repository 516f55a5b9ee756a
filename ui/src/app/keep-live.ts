import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { watchCalls } from "@/api/client";
import { useMay, useMe } from "@/data/session";
import { gatewayAnswered, gatewayLost, keepLive } from "@/live/events";
import { signedOut, useSignedOut } from "./signed-out";

/** Keeps the cache true while somebody is signed in, and notices when the session or the gateway is gone. */
export function useKeepLive(): void {
  const client = useQueryClient();
  const me = useMe();
  const mayRead = useMay()("streamEvents");
  const out = useSignedOut();
  useEffect(() => {
    watchCalls({ signedOut: () => signedOut(true), answered: gatewayAnswered, lost: gatewayLost });
    return () => watchCalls({});
  }, []);
  const id = me?.id;
  useEffect(() => {
    if (id === undefined || out) return;
    const end = new AbortController();
    void keepLive(client, mayRead, end.signal);
    return () => end.abort();
  }, [client, id, mayRead, out]);
}
