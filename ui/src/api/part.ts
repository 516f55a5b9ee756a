import { PartError } from "./errors";

/** Waits before each new try: a network that changes is back within a second. */
const WAITS = [200, 800];

/**
 * Fetches a part of the script: `fetchPart(() => import("./plots"))`. It tries again if the network fails, and throws `PartError`
 * if the part can't be had: the gateway is gone, or another version of it has other parts.
 */
export async function fetchPart<T>(load: () => Promise<T>): Promise<T> {
  for (const wait of WAITS) {
    try {
      return await load();
    } catch {
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  try {
    return await load();
  } catch (error) {
    throw new PartError(String(error));
  }
}
