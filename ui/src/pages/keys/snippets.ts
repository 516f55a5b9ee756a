import type { Snippet } from "@/kit/code-block";

type Given = {
  /** The address of the gateway, without a path. */
  origin: string;
  model: string;
  /** The token, where it is known; else the snippets name a variable. */
  token?: string;
};
type Words = { python: string; javascript: string; webui: string };

/** A text in single quotes for a POSIX shell. */
const shell = (text: string) => (/^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
/** A text as JSON, which Python, JavaScript and YAML read alike. */
const quoted = (text: string) => JSON.stringify(text);

/** What a user enters into each client: the gateway's address, the key and the model. The clients are those of docs/clients.md. */
export function snippetsOf({ origin, model, token }: Given, words: Words): Snippet[] {
  const v1 = `${origin}/v1`;
  const key = token ?? "$GANTRY_API_KEY";
  const given = token ?? "gty_…";
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] });
  const python = token ? quoted(token) : `os.environ["GANTRY_API_KEY"]`;
  const node = token ? quoted(token) : "process.env.GANTRY_API_KEY";
  return [
    {
      id: "curl",
      label: "curl",
      code: `curl --fail-with-body ${v1}/chat/completions \\
  -H "Authorization: Bearer ${key}" \\
  -d '${body.replaceAll("'", `'\\''`)}'`,
    },
    {
      id: "python",
      label: words.python,
      code: `${token ? "" : "import os\n"}from openai import OpenAI

client = OpenAI(base_url=${quoted(v1)}, api_key=${python})
answer = client.chat.completions.create(
    model=${quoted(model)}, messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)`,
    },
    {
      id: "javascript",
      label: words.javascript,
      code: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${quoted(v1)}, apiKey: ${node} });
const answer = await client.chat.completions.create({
  model: ${quoted(model)},
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`,
    },
    {
      id: "open-webui",
      label: "Open WebUI",
      code: `# ${words.webui}
OPENAI_API_BASE_URL=${v1} OPENAI_API_KEY=${key} open-webui serve`,
    },
    {
      id: "claude-code",
      label: "Claude Code",
      code: `export ANTHROPIC_BASE_URL=${origin}
export ANTHROPIC_AUTH_TOKEN=${key}
export ANTHROPIC_MODEL=${shell(model)} ANTHROPIC_SMALL_FAST_MODEL=${shell(model)}
claude`,
    },
    {
      id: "continue",
      label: "Continue",
      code: `# ~/.continue/config.yaml
models:
  - name: ${quoted(model)}
    provider: openai
    model: ${quoted(model)}
    apiBase: ${v1}
    apiKey: ${given}`,
    },
    {
      id: "aider",
      label: "aider",
      code: `export OPENAI_API_BASE=${v1} OPENAI_API_KEY=${key}
aider --model ${shell(`openai/${model}`)}`,
    },
  ];
}
