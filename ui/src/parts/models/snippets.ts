import type { Snippet } from "@/kit/code-block";

const py = (text: string) => JSON.stringify(text);
const sh = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Ways to call a model from other programs; the key comes from the environment variable `GANTRY_API_KEY`. */
export function snippetsFor(origin: string, model: string, task: string): Snippet[] {
  const base = `${origin}/v1`;
  const body = (value: unknown) => sh(JSON.stringify(value));
  const hello = [{ role: "user", content: "Hello" }];
  const curl = (path: string, value: unknown) =>
    `curl ${base}/${path} \\\n  -H "Authorization: Bearer $GANTRY_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d ${body(value)}`;
  const python = (call: string) =>
    `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${py(base)}, api_key=os.environ["GANTRY_API_KEY"])\n${call}`;
  const script = (call: string) =>
    `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${py(base)}, apiKey: process.env.GANTRY_API_KEY });\n${call}`;
  if (task !== "generate")
    return [
      { id: "curl", label: "curl", code: curl("embeddings", { model, input: ["some text"] }) },
      {
        id: "python",
        label: "Python",
        code: python(
          `answer = client.embeddings.create(model=${py(model)}, input=["some text"])\nprint(len(answer.data[0].embedding))`,
        ),
      },
      {
        id: "javascript",
        label: "JavaScript",
        code: script(
          `const answer = await client.embeddings.create({ model: ${py(model)}, input: ["some text"] });\nconsole.log(answer.data[0].embedding.length);`,
        ),
      },
    ];
  return [
    { id: "curl", label: "curl", code: curl("chat/completions", { model, messages: hello }) },
    {
      id: "python",
      label: "Python",
      code: python(
        `answer = client.chat.completions.create(\n    model=${py(model)},\n    messages=[{"role": "user", "content": "Hello"}],\n)\nprint(answer.choices[0].message.content)`,
      ),
    },
    {
      id: "javascript",
      label: "JavaScript",
      code: script(
        `const answer = await client.chat.completions.create({\n  model: ${py(model)},\n  messages: [{ role: "user", content: "Hello" }],\n});\nconsole.log(answer.choices[0].message.content);`,
      ),
    },
    {
      id: "open-webui",
      label: "Open WebUI",
      code: `ENABLE_OLLAMA_API=false\nOPENAI_API_BASE_URL=${base}\nOPENAI_API_KEY=$GANTRY_API_KEY`,
    },
    {
      id: "claude-code",
      label: "Claude Code",
      code: `export ANTHROPIC_BASE_URL=${origin}\nexport ANTHROPIC_AUTH_TOKEN=$GANTRY_API_KEY\nexport ANTHROPIC_MODEL=${sh(model)}\nexport ANTHROPIC_SMALL_FAST_MODEL=${sh(model)}\nclaude`,
    },
    {
      id: "continue",
      label: "Continue",
      code: `models:\n  - name: ${py(model)}\n    provider: openai\n    model: ${py(model)}\n    apiBase: ${base}\n    apiKey: \${{ secrets.GANTRY_API_KEY }}`,
    },
    {
      id: "aider",
      label: "aider",
      code: `export OPENAI_API_BASE=${base}\nexport OPENAI_API_KEY=$GANTRY_API_KEY\naider --model ${sh(`openai/${model}`)}`,
    },
  ];
}
