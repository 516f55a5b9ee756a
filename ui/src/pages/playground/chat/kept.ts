// The gateway keeps no pictures: those of a question stay in the browser that sent them.

let opened: Promise<IDBDatabase> | undefined;

function open(): Promise<IDBDatabase> {
  opened ??= new Promise((done, fail) => {
    const request = indexedDB.open("gantry-playground", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("pictures");
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
  return opened;
}

async function run<T>(
  mode: IDBTransactionMode,
  act: (of: IDBObjectStore) => IDBRequest<T>,
): Promise<T | undefined> {
  try {
    const db = await open();
    return await new Promise((done, fail) => {
      const request = act(db.transaction("pictures", mode).objectStore("pictures"));
      request.onsuccess = () => done(request.result);
      request.onerror = () => fail(request.error);
    });
  } catch {
    // A browser that keeps nothing: a reload loses the pictures, everything else works.
    return undefined;
  }
}

/** Keeps the pictures of a question, as `data:` addresses. `message` is its id, or the word of one that is not sent yet. */
export const keepPictures = (session: string, message: number | string, pictures: string[]) => {
  const key = `${session} ${message}`;
  return pictures.length > 0
    ? run("readwrite", (it) => it.put(pictures, key))
    : run("readwrite", (it) => it.delete(key));
};

/** Returns the pictures of a question, if this browser has them. */
export const picturesOf = async (session: string, message: number | string): Promise<string[]> =>
  (await run<string[]>("readonly", (it) => it.get(`${session} ${message}`))) ?? [];

/** Forgets the pictures of a chat; without `session`, of all. */
export const forget = (session?: string) =>
  run("readwrite", (it) =>
    session ? it.delete(IDBKeyRange.bound(`${session} `, `${session} \uffff`)) : it.clear(),
  );
