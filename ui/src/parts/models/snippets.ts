import type { Snippet } from "@/kit/code-block";

type Given = {
  /** The address of the gateway, without a path. */
  origin: string;
  model: string;
  /** The token, where it is known; else the snippets name a variable. */
  token?: string;
  /** What the model does; without it, it answers chats. */
  task?: string;
};

/** A text in single quotes for a POSIX shell. */
const shell = (text: string) => (/^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
/** A text as JSON, which Python, JavaScript and YAML read alike. */
const quoted = (text: string) => JSON.stringify(text);

/**
 * What a user enters into each client: the gateway's address, the key and the model. The clients are those of docs/clients.md;
 * `webui` says where Open WebUI asks for them.
 */
export function snippetsOf({ origin, model, token, task = "generate" }: Given, webui: string): Snippet[] {
  const v1 = `${origin}/v1`;
  const key = token ?? "$GANTRY_API_KEY";
  const given = token ?? "gty_…";
  const python = token ? quoted(token) : `os.environ["GANTRY_API_KEY"]`;
  const node = token ? quoted(token) : "process.env.GANTRY_API_KEY";
  const chat = task === "generate";
  const body = chat
    ? { model, messages: [{ role: "user", content: "Hello" }] }
    : { model, input: ["some text"] };
  const libraries: Snippet[] = [
    {
      id: "curl",
      label: "curl",
      code: `curl --fail-with-body ${v1}/${chat ? "chat/completions" : "embeddings"} \\
  -H "Authorization: Bearer ${key}" \\
  -d '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`,
    },
    {
      id: "python",
      label: "Python",
      code: `${token ? "" : "import os\n"}from openai import OpenAI

client = OpenAI(base_url=${quoted(v1)}, api_key=${python})
${
  chat
    ? `answer = client.chat.completions.create(
    model=${quoted(model)}, messages=[{"role": "user", "content": "Hello"}])
print(answer.choices[0].message.content)`
    : `answer = client.embeddings.create(model=${quoted(model)}, input=["some text"])
print(len(answer.data[0].embedding))`
}`,
    },
    {
      id: "javascript",
      label: "JavaScript",
      code: `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${quoted(v1)}, apiKey: ${node} });
${
  chat
    ? `const answer = await client.chat.completions.create({
  model: ${quoted(model)},
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`
    : `const answer = await client.embeddings.create({ model: ${quoted(model)}, input: ["some text"] });
console.log(answer.data[0].embedding.length);`
}`,
    },
  ];
  if (!chat) return libraries;
  return [
    ...libraries,
    {
      id: "open-webui",
      label: "Open WebUI",
      code: `# ${webui}
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
