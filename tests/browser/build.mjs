// Serves a build of the web UI as the gateway serves the one in the program (gzip, cache headers, the content security policy), and
// passes everything else on to a gateway. For figures: the harness answers in the browser, which takes longer than a network.
import { readdirSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", woff2: "font/woff2" };

/**
 * Starts it for the build in `dist` and the gateway at `url`. Returns its own address, and how to end it. `instead(asked, answer, url)`
 * may answer what would go to the gateway; it returns whether it does.
 */
export async function serveBuild(dist, url, instead = () => false) {
  const { hostname, port } = new URL(url);
  const policy = (await fetch(`${url}/ui/`)).headers.get("content-security-policy");
  const files = new Map();
  for (const it of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    if (!it.isFile()) continue;
    const path = join(it.parentPath, it.name);
    const type = extname(it.name).slice(1);
    const headers = { "content-type": TYPES[type] ?? "application/octet-stream", "content-security-policy": policy };
    headers["cache-control"] = path.includes("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
    if (type !== "woff2") headers["content-encoding"] = "gzip";
    const body = readFileSync(path);
    files.set(path.slice(dist.length).replace(/^\/+/, ""), { headers, body: type === "woff2" ? body : gzipSync(body, { level: 9 }) });
  }
  const server = createServer((asked, answer) => {
    const to = new URL(asked.url, url);
    const { pathname } = to;
    if (/^\/ui(\/|$)/.test(pathname)) {
      const file = files.get(extname(pathname) === "" ? "index.html" : pathname.slice("/ui/".length));
      answer.writeHead(file ? 200 : 404, file?.headers ?? {});
      return answer.end(file?.body);
    }
    if (instead(asked, answer, to)) return;
    const { method, headers } = asked;
    const onward = request({ hostname, port, path: asked.url, method, headers }, (reply) => {
      answer.writeHead(reply.statusCode, reply.headers);
      // A stream shows each piece as it comes.
      answer.flushHeaders();
      reply.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    asked.pipe(onward);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const end = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, end };
}
