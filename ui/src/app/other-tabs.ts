import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { claimKept, forgetKept } from "@/kit/kept";
import { signedOut } from "./signed-out";

/** What the tabs of one browser, which have one session, tell each other. */
type Said = { say: "out" } | { say: "in"; username: string };

let channel: BroadcastChannel | undefined;
const tabs = (): BroadcastChannel => {
  channel ??= new BroadcastChannel("gantry.session");
  return channel;
};

/** Tells all other tabs of this browser that somebody has signed out, or in. */
export const tellTabs = (said: Said): void => tabs().postMessage(said);

/** Goes to the sign-in by a load anew: nothing of the session is left in the memory of the page, and no query asks without it. */
export function leave(): void {
  forgetKept();
  location.assign("/ui/login");
}

/** Does in this tab what a sign-in or a sign-out in another one asks for. */
export function useSharedSession(username: string | undefined): void {
  const client = useQueryClient();
  useEffect(() => {
    if (username === undefined) return;
    const heard = ({ data }: MessageEvent<Said>) => {
      if (data.say === "out") leave();
      else if (data.username === username) {
        signedOut(false);
        void client.invalidateQueries();
      } else {
        // What is shown and typed here is somebody else's.
        claimKept(data.username);
        location.reload();
      }
    };
    tabs().addEventListener("message", heard);
    return () => tabs().removeEventListener("message", heard);
  }, [client, username]);
}
