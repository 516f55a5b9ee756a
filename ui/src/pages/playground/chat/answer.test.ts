import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { knownChat } from "@/data/chats";
import { ask, follow, leaveAnswer, stopAnswer } from "./answer";
import {
  ANSWER,
  answering,
  COMPLETIONS,
  gateway,
  gone,
  ID,
  nothing,
  QUESTION,
  refusal,
} from "./fake-gateway";
import { keepUnsaved } from "./keep";
import { dropRunning, runningOf } from "./running";

let client: QueryClient;
let server: ReturnType<typeof gateway>;

beforeEach(() => {
  client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  server = gateway();
  client.setQueryData(["chats", "one", ID], { ...server.chat });
  vi.stubGlobal("fetch", server.fetch);
});

afterEach(() => {
  leaveAnswer(ID);
  dropRunning(ID);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const asking = () =>
  ask(client, {
    session: ID,
    parent: 1,
    continues: false,
    model: "m",
    request: { model: "m", messages: [] },
  });
const shown = () => runningOf(ID);
const texts = () => knownChat(client, ID)?.messages.map((it) => it.content);

describe("an answer", () => {
  it("shows while it arrives, and is a message of the chat once it has ended", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    const ended = asking();
    expect(shown()).toMatchObject({ state: "asking", parent: 1 });
    stream.delta({ reasoning: "Hm", ttft_ms: 80 });
    stream.delta({ text: "S", reasoning_ms: 20, tokens: 2 });
    stream.delta({ text: "o", tokens: 3, tool_calls: [{ index: 0, name: "f", arguments: "{" }] });
    stream.delta({
      text: ".",
      tokens: 3,
      tool_calls: [
        { index: 0, arguments: "}" },
        { index: 1, name: "g" },
      ],
    });
    await vi.waitFor(() => expect(shown()?.text).toBe("So."));
    expect(shown()).toMatchObject({
      state: "writing",
      reasoning: "Hm",
      ttft: 80,
      reasoningMs: 20,
      tokens: 3,
      tools: [
        { name: "f", arguments: "{}" },
        { name: "g", arguments: "" },
      ],
    });
    expect(knownChat(client, ID)?.answering).toBe(true);
    stream.end({ messages: [ANSWER] });
    await ended;
    expect(shown()).toBeUndefined();
    expect(texts()).toEqual(["Why?", "So."]);
    expect(knownChat(client, ID)?.answering).toBe(false);
    expect(server.bodyOf(`POST ${COMPLETIONS}`)).toEqual({
      request: { model: "m", messages: [] },
      parent: 1,
      continues: false,
    });
  });

  it("is asked for once, however often it is clicked", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    const ended = asking();
    await asking();
    stream.end({ messages: [ANSWER] });
    await ended;
    expect(server.lines().filter((it) => it.startsWith("POST"))).toHaveLength(1);
  });

  it("that is refused says why, and nothing is followed", async () => {
    server.next(`POST ${COMPLETIONS}`, refusal(429, "rate_limited"));
    await asking();
    expect(shown()).toMatchObject({ state: "failed", error: { status: 429, code: "rate_limited" } });
    expect(server.lines().filter((it) => it.includes("completions"))).toEqual([`POST ${COMPLETIONS}`]);
  });

  it("that was refused stays refused when the chat was still said to be answered", async () => {
    server.next(`POST ${COMPLETIONS}`, refusal(400, "invalid_request"));
    await asking();
    server.next(`GET ${COMPLETIONS}/current`, nothing);
    await follow(client, ID);
    expect(shown()).toMatchObject({ state: "failed", error: { status: 400 } });
  });

  it("that ended with an error and no text says why", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    stream.end({ error: { code: "upstream_failed", message: "it died" } });
    await asking();
    expect(shown()).toMatchObject({ state: "failed", error: { message: "it died", requestId: "r" } });
  });

  it("that was stopped before anything came leaves nothing", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    stream.end();
    await asking();
    expect(shown()).toBeUndefined();
  });

  it("that could not be stored stays here, and is stored when it is tried again", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    stream.delta({ text: "So." });
    stream.end({ error: { code: "database_unavailable", message: "no database" }, content: "So." });
    await asking();
    expect(shown()).toMatchObject({ state: "unsaved", text: "So.", error: { code: "database_unavailable" } });
    const store = `POST /v1/chat/sessions/${ID}/messages`;
    server.next(store, refusal(503, "database_unavailable"), () => Response.json(ANSWER));
    await keepUnsaved(client, ID);
    expect(shown()?.state).toBe("unsaved");
    await keepUnsaved(client, ID);
    expect(shown()).toBeUndefined();
    expect(texts()).toEqual(["Why?", "So."]);
    expect(server.bodyOf(store)).toMatchObject({ role: "assistant", content: "So.", metrics: { parent: 1 } });
  });
});

describe("an answer whose connection is lost", () => {
  it("goes on where it is, with all that came meanwhile and nothing twice", async () => {
    const [first, second] = [answering(), answering()];
    server.next(`POST ${COMPLETIONS}`, first.open);
    server.next(`GET ${COMPLETIONS}/current`, gone, second.open);
    const ended = asking();
    first.delta({ text: "On" });
    await vi.waitFor(() => expect(shown()?.text).toBe("On"));
    first.breakOff();
    await vi.waitFor(() => expect(shown()?.state).toBe("lost"));
    expect(shown()?.text).toBe("On");
    await vi.waitFor(() => expect(shown()?.state).toBe("writing"), 4000);
    // Nothing vanishes until what came so far is here.
    expect(shown()?.text).toBe("On");
    second.delta({ text: "Once more", tokens: 2 });
    await vi.waitFor(() => expect(shown()?.text).toBe("Once more"));
    second.end({ messages: [ANSWER] });
    await ended;
    expect(texts()).toEqual(["Why?", "So."]);
  });

  it("is read from the chat if it ended meanwhile", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    server.next(`GET ${COMPLETIONS}/current`, nothing);
    server.chat.messages = [QUESTION, ANSWER];
    stream.breakOff();
    await asking();
    expect(shown()).toBeUndefined();
    expect(texts()).toEqual(["Why?", "So."]);
  });

  it("is looked for once more if another gateway may write it", async () => {
    vi.useFakeTimers();
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    server.next(`GET ${COMPLETIONS}/current`, nothing);
    const ended = asking();
    stream.breakOff();
    await vi.advanceTimersByTimeAsync(1000);
    expect(shown()?.state).toBe("lost");
    server.chat.messages = [QUESTION, ANSWER];
    await vi.advanceTimersByTimeAsync(5000);
    await ended;
    expect(shown()).toBeUndefined();
    expect(texts()).toEqual(["Why?", "So."]);
  });

  it("leaves what came if the gateway that wrote it is gone", async () => {
    vi.useFakeTimers();
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    server.next(`GET ${COMPLETIONS}/current`, nothing);
    const ended = asking();
    stream.delta({ text: "Half", tokens: 1 });
    await vi.advanceTimersByTimeAsync(100);
    stream.breakOff();
    await vi.advanceTimersByTimeAsync(10_000);
    await ended;
    expect(shown()).toMatchObject({
      state: "unsaved",
      text: "Half",
      unsaved: { content: "Half", facts: { parent: 1, ending: "interrupted", estimated: true } },
    });
  });

  it("fails if the question never reached the gateway", async () => {
    vi.useFakeTimers();
    server.next(`POST ${COMPLETIONS}`, gone);
    server.next(`GET ${COMPLETIONS}/current`, gone, nothing);
    const ended = asking();
    await vi.advanceTimersByTimeAsync(10_000);
    await ended;
    expect(shown()).toMatchObject({ state: "failed", error: { name: "NetworkError" } });
  });
});

describe("an answer that somebody else began", () => {
  it("shows from its beginning, behind a question that this page did not know", async () => {
    const stream = answering({ parent: 3 });
    server.next(`GET ${COMPLETIONS}/current`, stream.open);
    const ended = follow(client, ID);
    // A second call changes nothing.
    void follow(client, ID);
    stream.delta({ text: "All so far", tokens: 9 });
    await vi.waitFor(() =>
      expect(shown()).toMatchObject({ parent: 3, text: "All so far", state: "writing" }),
    );
    expect(client.getQueryState(["chats", "one", ID])?.isInvalidated).toBe(true);
    stream.end({ messages: [{ ...ANSWER, metrics: { parent: 3 } }] });
    await ended;
    expect(texts()).toEqual(["Why?", "So."]);
    expect(server.lines().filter((it) => it.endsWith("current"))).toHaveLength(1);
  });

  it("has ended when it is looked for: then the chat has it", async () => {
    server.next(`GET ${COMPLETIONS}/current`, nothing);
    server.chat.messages = [QUESTION, ANSWER];
    await follow(client, ID);
    expect(shown()).toBeUndefined();
    expect(texts()).toEqual(["Why?", "So."]);
  });

  it("is no longer read once its page is left, and goes on", async () => {
    const stream = answering();
    server.next(`GET ${COMPLETIONS}/current`, stream.open);
    const ended = follow(client, ID);
    await vi.waitFor(() => expect(shown()?.state).toBe("writing"));
    leaveAnswer(ID);
    await ended;
    expect(shown()).toBeUndefined();
    expect(knownChat(client, ID)?.answering).toBe(true);
    expect(server.lines()).not.toContain(`DELETE ${COMPLETIONS}/current`);
  });
});

describe("stopping", () => {
  it("asks the gateway, whose end says what is left", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    server.next(`DELETE ${COMPLETIONS}/current`, () => Response.json({ status: "stopped" }));
    const ended = asking();
    stream.delta({ text: "So" });
    await vi.waitFor(() => expect(shown()?.text).toBe("So"));
    await stopAnswer(ID);
    stream.end({ messages: [{ ...ANSWER, content: "So", metrics: { parent: 1, ending: "stopped" } }] });
    await ended;
    expect(texts()).toEqual(["Why?", "So"]);
  });

  it("takes a question back that the gateway does not have yet", async () => {
    server.next(`POST ${COMPLETIONS}`, () => new Promise<Response>(() => {}));
    server.next(`DELETE ${COMPLETIONS}/current`, refusal(404, "not_found"));
    const ended = asking();
    await stopAnswer(ID);
    await ended;
    expect(shown()).toBeUndefined();
  });

  it("says if the gateway can't be reached, and the answer is still looked for", async () => {
    const stream = answering();
    server.next(`POST ${COMPLETIONS}`, stream.open);
    server.next(`DELETE ${COMPLETIONS}/current`, gone);
    const ended = asking();
    await vi.waitFor(() => expect(shown()?.state).toBe("writing"));
    await expect(stopAnswer(ID)).rejects.toThrow("connection refused");
    expect(shown()?.state).toBe("writing");
    stream.end({ messages: [ANSWER] });
    await ended;
  });
});
