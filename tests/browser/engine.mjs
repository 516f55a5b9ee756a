// An engine for tests of the playground. What it answers is told by the question: `sleep`, `wait`, `die`, `refuse`, `think`, `tool`,
// `code`, `long N`, `see`. It speaks as much of OpenAI's API as the gateway and the playground need.
import { createServer } from "node:http";

const CODE = `Here is a program:

\`\`\`rust
fn main() {
    println!("hello");
}
\`\`\`

| Word | Count |
|------|------:|
| one  | 1     |

- **bold** and *italic*
- \`code\` and [a link](https://example.org/)

<script>window.harmed = true</script> [bad](javascript:window.harmed=true) ![spy](https://example.invalid/spy.png)
`;
/** Wider than a phone. */
export const SUM = Array.from({ length: 60 }, (_, at) => `x_{${at}}`).join(" + ");
export const FORMULAS = [
  "It costs $5 and $6, or \\$7. Here are $x_1^2 + y^*$ and \\(a < b\\).",
  "$$\n\\begin{aligned}\na &= b\n- c \\\\\n&= d\n\\end{aligned}\n$$",
  `\\[ ${SUM} \\]`,
  "```math\n\\frac{1}{2}\n```",
  "In a span: `$z$`. With an error: $\\frac{1}{$.",
].join("\n\n");
const WORDS = "The quick brown fox jumps over a lazy dog while rain falls on the roof and trains leave for the coast".split(" ");

/** A long text with paragraphs, lists and code, so that its blocks end now and then. */
function* long(tokens) {
  for (let at = 0; at < tokens; at += 1) {
    const word = WORDS[at % WORDS.length];
    if (at % 120 === 119) yield "\n\n";
    else if (at % 600 === 300) yield "\n\n```python\n";
    else if (at % 600 === 360) yield "\n```\n\n";
    else yield at % 17 === 16 ? ` **${word}**` : ` ${word}`;
  }
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const textOf = (content) =>
  typeof content === "string" ? content : content.map((it) => it.text ?? "").join(" ");

/**
 * Starts it. `rate`: tokens per second of a long answer. Returns its address what it was asked last, and how often. After `hold(N)` long
 * answers wait at their token N, so that they don't end before a slow machine has looked at them, until `hold(M)` or `go()`.
 */
export async function startEngine({ rate = 250 } = {}) {
  const seen = { last: undefined, count: 0, cut: 0 };
  let most = Number.POSITIVE_INFINITY;
  const held = new EventTarget();
  const hold = (tokens) => {
    most = tokens;
    held.dispatchEvent(new Event("changed"));
  };
  const server = createServer(async (request, response) => {
    const json = (status, body) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (request.method === "GET" && request.url.startsWith("/v1/models"))
      return json(200, { object: "list", data: [{ id: "mock", object: "model", created: 1, owned_by: "x", max_model_len: 131072 }] });
    if (request.method === "GET") return json(200, {});
    let text = "";
    for await (const piece of request) text += piece;
    const body = JSON.parse(text);
    seen.last = body;
    seen.count += 1;
    const asked = textOf(body.messages.findLast((it) => it.role === "user")?.content ?? "");
    if (asked.includes("refuse"))
      return json(400, { error: { message: "temperature must be smaller", type: "invalid_request_error", param: "temperature", code: "bad" } });
    response.writeHead(200, { "content-type": "text/event-stream" });
    const say = (delta, finish_reason = null) =>
      response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: body.model, choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    response.on("close", () => (seen.cut += response.writableEnded ? 0 : 1));
    const cut = new Promise((done) => response.once("close", done));
    let count = 0;
    const word = async (it, pause = 5) => {
      say({ content: it });
      count += 1;
      await sleep(pause);
    };
    say({ role: "assistant", content: "" });
    let finish = "stop";
    if (body.messages.at(-1).role === "assistant") await word(" and its end.");
    else if (asked.includes("think")) {
      for (const it of ["First ", "I ", "consider."]) {
        say({ reasoning: it });
        await sleep(60);
      }
      await word("The answer is 42.");
    } else if (asked.includes("tool")) {
      say({ tool_calls: [{ index: 0, id: "1", type: "function", function: { name: "weather", arguments: '{"city":' } }] });
      say({ tool_calls: [{ index: 0, function: { arguments: '"Ulm"}' } }] });
      finish = "tool_calls";
    } else if (asked.includes("die")) {
      for (const it of ["A ", "beginning"]) await word(it, 50);
      return response.destroy();
    } else if (asked.includes("code")) {
      for (const it of CODE.match(/[\s\S]{1,6}/g)) await word(it, 2);
    } else if (asked.includes("formula")) {
      for (const it of FORMULAS.match(/[\s\S]{1,6}/g)) await word(it, 2);
    } else if (asked.includes("long")) {
      // By the clock, not by pauses: a timer that is late must not slow the stream.
      const began = performance.now();
      for (const it of long(Number(/long (\d+)/.exec(asked)?.[1] ?? 1000))) {
        while (count >= most && !response.destroyed)
          await Promise.race([cut, new Promise((done) => held.addEventListener("changed", done, { once: true }))]);
        if (response.destroyed) return;
        const at = Math.round((performance.timeOrigin + performance.now()) * 10) / 10;
        response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: body.model, sent: at, choices: [{ index: 0, delta: { content: it }, finish_reason: null }] })}\n\n`);
        count += 1;
        const ahead = (count / rate) * 1000 - (performance.now() - began);
        if (ahead > 1) await sleep(ahead);
      }
    } else if (asked.includes("wait")) {
      // Both go on until nobody waits for them any more.
      return cut;
    } else if (asked.includes("sleep")) {
      for (let at = 0; !response.destroyed; at += 1) await word(`${at} `, 50);
      return;
    } else if (asked.includes("see")) await word(`I see ${JSON.stringify(body.messages).split("data:image").length - 1} picture.`);
    else await word(`You said: ${asked.slice(0, 200)}`);
    say({}, finish);
    response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: body.model, choices: [], usage: { prompt_tokens: 11, completion_tokens: count, total_tokens: 11 + count } })}\n\n`);
    response.end("data: [DONE]\n\n");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}`, seen, hold, go: () => hold(Number.POSITIVE_INFINITY), stop: () => { server.closeAllConnections(); server.close(); } };
}

if (process.argv[1] === import.meta.filename) console.log((await startEngine()).url);
