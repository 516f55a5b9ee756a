import { describe, expect, it } from "vitest";
import type { ChatMessage } from "@/data/chats";
import type { Constraints } from "@/data/inference";
import { tokensOf } from "./context-meter";
import { DEFAULTS, fieldsOf, numberFields } from "./parameters";
import { requestOf } from "./request";
import { markdownOfTurns } from "./save-chat";
import { fileNameOf, markdownOf, snippetsOf } from "./snippets";
import { titleOf } from "./title";
import { type Facts, joinReasoning, partsOf, pathOf, splitReasoning } from "./tree";

const message = (id: number, role: "user" | "assistant", content: string, metrics: Facts | null = null) =>
  ({ id, role, content, metrics, timestamp: id }) as ChatMessage;

const said = (messages: ChatMessage[], at?: number[]) => pathOf(messages, at).map((it) => it.content);

it("saves a chat under its title, as far as every system takes it", () => {
  expect(fileNameOf("Why?")).toBe("Why");
  expect(fileNameOf("a/b\\c: “d”\n\u202Ee")).toBe("a b c “d” e");
  expect(fileNameOf("x".repeat(100))).toBe("x".repeat(60));
  expect(fileNameOf("...")).toBe("chat");
});

it("takes a typed title in one line, and none as the automatic one", () => {
  expect(titleOf("  a\tb\u0085 c ")).toBe("a b c");
  expect(titleOf(" \n")).toBeNull();
});

describe("the tree of a chat", () => {
  it("is a line for messages of other programs, which say no parent", () => {
    expect(said([message(1, "user", "a"), message(2, "assistant", "b"), message(3, "user", "c")])).toEqual([
      "a",
      "b",
      "c",
    ]);
  });

  const tree = [
    message(1, "user", "q1", { parent: 0 }),
    message(2, "assistant", "a1", { parent: 1 }),
    message(3, "user", "q2", { parent: 2 }),
    message(4, "assistant", "a2", { parent: 3 }),
    message(5, "assistant", "a1 again", { parent: 1 }),
    message(6, "user", "q1 edited", { parent: 0 }),
    message(7, "assistant", "a of edited", { parent: 6 }),
  ];

  it("shows the newest branch, and any other that is chosen with all that followed", () => {
    expect(said(tree)).toEqual(["q1 edited", "a of edited"]);
    expect(said(tree, [1])).toEqual(["q1", "a1 again"]);
    expect(said(tree, [2])).toEqual(["q1", "a1", "q2", "a2"]);
    expect(said(tree, [99])).toEqual(["q1 edited", "a of edited"]);
  });

  it("knows what else stands at a place", () => {
    expect(pathOf(tree, [2]).map((it) => it.siblings)).toEqual([[1, 6], [2, 5], [3], [4]]);
  });

  it("joins an answer with its rest", () => {
    const parts = [
      message(1, "user", "q", { parent: 0 }),
      message(2, "assistant", "be", { parent: 1, ending: "stopped" }),
      message(3, "assistant", "gun", { parent: 2, continues: true, ending: "stop" }),
      message(4, "user", "next", { parent: 3 }),
    ];
    const path = pathOf(parts);
    expect(path.map((it) => it.content)).toEqual(["q", "begun", "next"]);
    expect(path[1]).toMatchObject({ id: 2, last: 3, facts: { ending: "stop" } });
  });

  it("survives parents that are not there", () => {
    expect(
      said([message(1, "user", "a", { parent: 77 }), message(2, "assistant", "b", { parent: 5 })]),
    ).toEqual(["a", "b"]);
  });
});

describe("long messages", () => {
  it("are kept in parts without loss, and no character is cut in two", () => {
    const text = `${"a".repeat(9)}😀${"b".repeat(20)}`;
    const parts = partsOf(text, 10);
    expect(parts.join("")).toBe(text);
    expect(parts[0]).toBe("a".repeat(9));
    expect(parts.every((it) => it.length <= 10)).toBe(true);
    expect(partsOf("")).toEqual([""]);
    expect(partsOf("a\0b")).toEqual(["a\ufffdb"]);
  });
});

describe("reasoning", () => {
  it("is told from the answer, also while it is still written", () => {
    expect(splitReasoning(joinReasoning("why", "so"))).toEqual({ reasoning: "why", text: "so", open: false });
    expect(splitReasoning("<think>hm")).toEqual({ reasoning: "hm", text: "", open: true });
    expect(splitReasoning("I <think> so")).toEqual({ reasoning: "", text: "I <think> so", open: false });
  });
});

const vllm = {
  engine_type: "vllm",
  max_model_len: 2048,
  max_tokens_default: 512,
  request_defaults: { temperature: 0.6 },
  supports_system_prompt: true,
  supports_vision: null,
} as unknown as Constraints;

describe("what is sent", () => {
  it("has only what is set, in the words of the engine", () => {
    expect(fieldsOf(DEFAULTS, vllm)).toEqual({ max_tokens: 512 });
    const set = { ...DEFAULTS, temperature: 0, repetition_penalty: 1.1, stop: "a\n\nb", json: true };
    expect(fieldsOf(set, { ...vllm, engine_type: "llamacpp" })).toEqual({
      temperature: 0,
      max_tokens: 512,
      repeat_penalty: 1.1,
      stop: ["a", "b"],
      response_format: { type: "json_object" },
    });
    expect(fieldsOf(set, { ...vllm, engine_type: null })).not.toHaveProperty("repetition_penalty");
  });

  it("is limited by the model", () => {
    const fields = numberFields(vllm);
    expect(fields.find((it) => it.name === "max_tokens")).toMatchObject({ max: 2048, fallback: 512 });
    expect(fields.find((it) => it.name === "temperature")).toMatchObject({ fallback: 0.6 });
  });

  it("has the conversation without reasoning, the pictures, and says when the model shall go on", () => {
    const turns = [
      { id: 1, role: "user" as const, content: "what" },
      { id: 2, role: "assistant" as const, content: joinReasoning("why", "th") },
    ];
    const body = requestOf({
      model: "m",
      turns,
      parameters: { ...DEFAULTS, system: " be short " },
      constraints: vllm,
      pictures: new Map([[1, ["data:x"]]]),
      goOn: true,
    });
    expect(body.messages).toEqual([
      { role: "system", content: "be short" },
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:x" } },
          { type: "text", text: "what" },
        ],
      },
      { role: "assistant", content: "th" },
    ]);
    expect(body).toMatchObject({ continue_final_message: true, add_generation_prompt: false });
  });
});

describe("copying", () => {
  const body = { model: "m", messages: [{ role: "user", content: 'it\'s "so"' }], top_k: 4 };

  it("gives a command that a shell reads as it was meant", () => {
    const [curl] = snippetsOf(body, "http://h/v1");
    expect(curl?.code).toContain("it'\\''s \\\"so\\\"");
  });

  it("gives Python that its library takes", () => {
    const python = snippetsOf({ ...body, json: true, none: null }, "http://h/v1")[1]?.code;
    expect(python).toContain('model="m"');
    expect(python).toContain('extra_body={\n        "top_k": 4,');
    expect(python).toContain("json=True");
    expect(python).toContain("none=None");
  });

  it("gives the conversation as markdown", () => {
    expect(markdownOf([{ name: "You", text: "a" }])).toBe("**You:**\n\na\n");
    const turns = pathOf([
      message(1, "user", "q"),
      message(2, "assistant", joinReasoning("why", "a"), { model: "m" }),
      message(3, "assistant", "b"),
    ]);
    expect(markdownOfTurns(turns, { you: "You", model: "Model" })).toBe(
      "**You:**\n\nq\n\n**m:**\n\na\n\n**Model:**\n\nb\n",
    );
  });
});

describe("the context", () => {
  it("is as long as the last answer says, with a guess for what came after", () => {
    const turns = pathOf([
      message(1, "user", "q"),
      message(2, "assistant", "a", { prompt_tokens: 10, completion_tokens: 5 }),
    ]);
    expect(tokensOf(turns)).toEqual({ tokens: 15, exact: true });
    const more = pathOf([...[], message(1, "user", "12345678")]);
    expect(tokensOf(more)).toEqual({ tokens: 2, exact: false });
    expect(tokensOf([])).toEqual({ tokens: 0, exact: true });
  });
});
