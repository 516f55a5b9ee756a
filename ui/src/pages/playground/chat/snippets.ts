import type { Snippet } from "@/kit/code-block";

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** JSON as Python writes it. */
function python(value: unknown, indent = 0): string {
  const pad = "    ".repeat(indent + 1);
  const end = "    ".repeat(indent);
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value))
    return value.length === 0
      ? "[]"
      : `[\n${value.map((it) => `${pad}${python(it, indent + 1)},\n`).join("")}${end}]`;
  if (typeof value === "object")
    return `{\n${Object.entries(value)
      .map(([name, it]) => `${pad}${JSON.stringify(name)}: ${python(it, indent + 1)},\n`)
      .join("")}${end}}`;
  return JSON.stringify(value);
}

/** Parameters that OpenAI's Python library does not know as arguments. */
const EXTRA = [
  "top_k",
  "min_p",
  "repetition_penalty",
  "repeat_penalty",
  "continue_final_message",
  "add_generation_prompt",
];

/** Programs that ask the same as the playground did. `$GANTRY_API_KEY` stands for a key, which no page knows. */
export function snippetsOf(asked: Record<string, unknown>, base: string): Snippet[] {
  const own = Object.entries(asked).filter(([name]) => !EXTRA.includes(name));
  const extra = Object.fromEntries(Object.entries(asked).filter(([name]) => EXTRA.includes(name)));
  const args = [
    ...own.map(([name, value]) => `    ${name}=${python(value, 1)},\n`),
    ...(Object.keys(extra).length > 0 ? [`    extra_body=${python(extra, 1)},\n`] : []),
  ];
  return [
    {
      id: "curl",
      label: "curl",
      code: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer $GANTRY_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(asked, null, 2))}\n`,
    },
    {
      id: "python",
      label: "Python",
      code: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${JSON.stringify(base)}, api_key=os.environ["GANTRY_API_KEY"])\nanswer = client.chat.completions.create(\n${args.join("")})\nprint(answer.choices[0].message.content)\n`,
    },
    {
      id: "javascript",
      label: "JavaScript",
      code: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.GANTRY_API_KEY });\nconst answer = await client.chat.completions.create(${JSON.stringify(asked, null, 2)});\nconsole.log(answer.choices[0].message.content);\n`,
    },
  ];
}

/** The name of the file that a chat is saved as: its title, as far as every system takes it. */
export function fileNameOf(title: string): string {
  const plain = title.replace(/[\\/:*?"<>|\p{C}\s]+/gu, " ").trim();
  return (
    [...plain]
      .slice(0, 60)
      .join("")
      .replace(/[. ]+$/, "") || "chat"
  );
}

/** A conversation as markdown. */
export function markdownOf(turns: { name: string; text: string }[]): string {
  return turns.map(({ name, text }) => `**${name}:**\n\n${text}\n`).join("\n");
}
