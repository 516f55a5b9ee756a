// A model hub for tests: it has repositories with the files that a test names, and tells of them what the public hub tells.
import { createServer } from "node:http";
import { atEnd } from "./harness.mjs";

/**
 * Starts it. `repositories` are, by `owner/name`, `{ config, files }`: the `config.json` if there is one, and sizes in bytes by path
 * (`undefined`: the hub does not say). Returns its address, and what it was asked.
 */
export async function startHub(repositories) {
  const asked = [];
  const server = createServer((request, answer) => {
    const { pathname } = new URL(request.url, "http://hub");
    asked.push(pathname);
    const json = (status, body) => {
      answer.writeHead(status, { "content-type": "application/json" });
      answer.end(JSON.stringify(body));
    };
    const about = /^\/api\/models\/(.+)$/.exec(pathname)?.[1];
    const of = /^\/(.+)\/resolve\/main\/config\.json$/.exec(pathname)?.[1];
    const found = repositories[about ?? of];
    if (!found || (of && !found.config)) return json(404, { error: "Entry not found" });
    if (of) return json(200, found.config);
    json(200, { id: about, siblings: Object.entries(found.files).map(([rfilename, size]) => ({ rfilename, size })) });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  atEnd(async () => server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, asked };
}
