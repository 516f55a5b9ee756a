import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { snippetsOf } from "./snippets";

const nasty = `a'b "c" $(touch x) \`d\` \\ é`;

describe("snippetsOf", () => {
  it("names the address, the model and the token in every snippet", () => {
    for (const { id, code } of snippetsOf(
      { origin: "http://box:8084", model: "qwen", token: "gty_1" },
      "text",
    )) {
      expect(code, id).toContain("http://box:8084");
      expect(code, id).toContain("gty_1");
      if (id !== "open-webui") expect(code, id).toContain("qwen");
    }
  });

  it("passes a model's name through a shell unchanged, whatever is in it", () => {
    const of = (id: string) =>
      snippetsOf({ origin: "http://box", model: nasty, token: "gty_1" }, "text").find((it) => it.id === id)!
        .code;
    const run = (script: string) => execFileSync("/bin/sh", ["-c", script], { encoding: "utf8" });
    const claude = of("claude-code").replace(/claude$/, 'printf %s "$ANTHROPIC_MODEL"');
    expect(run(claude)).toBe(nasty);
    expect(run(of("aider").replace("aider --model", "printf %s"))).toBe(`openai/${nasty}`);
    const curl = of("curl").replace(
      "curl --fail-with-body",
      'shift_to_body() { printf %s "$5"; }; shift_to_body',
    );
    expect(JSON.parse(run(curl)).model).toBe(nasty);
  });

  it("names a variable where the token is not known", () => {
    const all = snippetsOf({ origin: "http://box", model: "m" }, "text").map((it) => it.code);
    expect(all.join("\n")).not.toContain("undefined");
    expect(all[0]).toContain("$GANTRY_API_KEY");
    expect(all[1]).toContain('os.environ["GANTRY_API_KEY"]');
  });

  it("asks a model that makes vectors for vectors, and no client for chats", () => {
    const all = snippetsOf({ origin: "http://box", model: "m", task: "embed" }, "text");
    expect(all.map((it) => it.id)).toEqual(["curl", "python", "javascript"]);
    for (const { code } of all) expect(code).toContain("embeddings");
  });
});
