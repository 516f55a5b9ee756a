import { useEffect, useMemo, useSyncExternalStore } from "react";
import { ApiError, isAbort } from "@/api/errors";
import { stream } from "@/api/stream";
import { whileVisible } from "@/live/visible";

/** How many lines are kept; older ones are dropped. */
export const MOST_LINES = 100_000;
/** The gateway sends no more of the past than this. */
export const MOST_HISTORY = 20_000;

/**
 * A log that is being read. `first` is the number of the first line that is kept, counted from the first that came; `reading` is the
 * number of times that the log was read from its beginning: its lines are others then.
 */
export type Log = {
  lines: string[];
  first: number;
  reading: number;
  state: "reading" | "waiting" | "ended";
  error: unknown;
};

const EMPTY: Log = { lines: [], first: 0, reading: 0, state: "reading", error: undefined };

/** Collects lines, and says ten times a second at most that there are new ones. */
class LogBuffer {
  #log: Log = EMPTY;
  #new: string[] = [];
  #over = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #listeners = new Set<() => void>();

  readonly snapshot = (): Log => this.#log;
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  add(line: string): void {
    this.#new.push(line);
    this.#timer ??= setTimeout(() => this.flush({}), 100);
  }

  flush(change: Partial<Pick<Log, "state" | "error">>, restart = false): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const anew = restart || (this.#over && this.#new.length > 0);
    if (anew) this.#over = false;
    const before = anew ? { ...EMPTY, reading: this.#log.reading + 1 } : this.#log;
    let { lines, first } = before;
    if (this.#new.length > 0) {
      lines = lines.concat(this.#new);
      const over = lines.length - MOST_LINES;
      if (over > 0) {
        lines = lines.slice(over);
        first += over;
      }
      this.#new = [];
    }
    this.#log = { ...before, lines, first, ...change };
    for (const listener of this.#listeners) listener();
  }

  restart(): void {
    this.#new = [];
    this.flush({ state: "reading", error: undefined }, true);
  }

  /** The log is read once more: what is shown stays until it comes. */
  again(): void {
    this.#new = [];
    this.#over = true;
    this.flush({ state: "reading", error: undefined });
  }
}

const lineOf = (data: string): string => {
  const { line } = JSON.parse(data) as { line?: string };
  return line ?? "";
};

async function read(buffer: LogBuffer, id: number, tail: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    buffer.again();
    try {
      const query = { tail, follow: "true", colors: "true" };
      let burst = 0;
      for await (const { data } of stream("getModelLogs", { path: { id }, query, signal })) {
        buffer.add(lineOf(data));
        burst += 1;
        // A long past comes at once: the page must stay usable while it is read.
        if (burst % 1000 === 0) await new Promise((done) => setTimeout(done));
      }
      if (signal.aborted) return;
      return buffer.flush({ state: "ended" });
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      // A lost gateway comes back, and then the whole log is read again; its refusals are final.
      if (error instanceof ApiError) return buffer.flush({ state: "ended", error });
      buffer.flush({ state: "waiting" });
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}

/** The last lines of a model's log, and every line that comes while the tab is in sight. `run` starts it anew: with another state there may be another log; without one there is no engine to listen to. */
export function useLogStream(id: number, tail: number, run: string | null): Log {
  const buffer = useMemo(() => new LogBuffer(), []);

  useEffect(() => {
    if (run === null) return buffer.flush({ state: "ended", error: undefined }, true);
    const end = new AbortController();
    buffer.restart();
    void whileVisible(end.signal, (inSight) => read(buffer, id, tail, inSight));
    return () => end.abort();
  }, [buffer, id, tail, run]);
  return useSyncExternalStore(buffer.subscribe, buffer.snapshot);
}
