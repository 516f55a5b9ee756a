import type { Facts } from "./tree";

// What the gateway does not keep is kept in this browser: an answer that is being written, and the pictures of a question.

/** An answer that is not with the gateway yet. `at` says when it was last written to. */
export type Unsaved = {
  session: string;
  parent: number;
  content: string;
  facts: Facts;
  at: number;
};

type Store = "answers" | "pictures";

let opened: Promise<IDBDatabase> | undefined;

function open(): Promise<IDBDatabase> {
  opened ??= new Promise((done, fail) => {
    const request = indexedDB.open("gantry-playground", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("answers");
      request.result.createObjectStore("pictures");
    };
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
  return opened;
}

async function run<T>(
  store: Store,
  mode: IDBTransactionMode,
  act: (of: IDBObjectStore) => IDBRequest<T>,
): Promise<T | undefined> {
  try {
    const db = await open();
    return await new Promise((done, fail) => {
      const request = act(db.transaction(store, mode).objectStore(store));
      request.onsuccess = () => done(request.result);
      request.onerror = () => fail(request.error);
    });
  } catch {
    // A browser that keeps nothing: a reload loses what is being written, everything else works.
    return undefined;
  }
}

const LAST = (session: string) => `gantry.answer.${session}`;

/** Keeps what has arrived of an answer. */
export const keepAnswer = (answer: Unsaved) =>
  run("answers", "readwrite", (it) => it.put(answer, answer.session));

/** Keeps it at once, while the page goes away: the database would be too late. */
export function keepAnswerNow(answer: Unsaved): void {
  try {
    sessionStorage.setItem(LAST(answer.session), JSON.stringify(answer));
  } catch {
    // It is too long for this place; what the database has is at most a quarter of a second older.
  }
}

export async function dropAnswer(session: string): Promise<void> {
  try {
    sessionStorage.removeItem(LAST(session));
  } catch {
    // There was nothing, then.
  }
  await run("answers", "readwrite", (it) => it.delete(session));
}

/** An answer that is older than this and still not with the gateway is written by nobody any more. */
const SILENT = 4000;

/** Returns an answer that a reload or a crash has cut off. One that another tab is still writing is not given. */
export async function cutOffAnswer(session: string): Promise<Unsaved | undefined> {
  let own: Unsaved | undefined;
  try {
    const text = sessionStorage.getItem(LAST(session));
    own = text ? (JSON.parse(text) as Unsaved) : undefined;
  } catch {
    own = undefined;
  }
  const kept = await run<Unsaved | undefined>("answers", "readonly", (it) => it.get(session));
  if (own && (!kept || own.content.length >= kept.content.length || own.parent !== kept.parent)) return own;
  return kept && (own || Date.now() - kept.at > SILENT) ? kept : undefined;
}

/** The pictures of a question, as `data:` addresses. */
export const keepPictures = (session: string, message: number, pictures: string[]) =>
  run("pictures", "readwrite", (it) => it.put(pictures, `${session} ${message}`));

export const picturesOf = async (session: string, message: number): Promise<string[]> =>
  (await run<string[]>("pictures", "readonly", (it) => it.get(`${session} ${message}`))) ?? [];

/** Forgets what this browser has of a chat; without `session`, of all. */
export async function forget(session?: string): Promise<void> {
  if (session) await dropAnswer(session);
  else await run("answers", "readwrite", (it) => it.clear());
  await run("pictures", "readwrite", (it) =>
    session ? it.delete(IDBKeyRange.bound(`${session} `, `${session} \uffff`)) : it.clear(),
  );
}
