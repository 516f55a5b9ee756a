import { describe, expect, it } from "vitest";
import { SseParser } from "./stream";

const STREAM = [
  "retry: 2000\n\n",
  ': still here\n\nid: 7\nevent: model\ndata: {"a":1}\n\n',
  "data: first\r\ndata: second\r\n\r\n",
  "data:no space\r\rdata\n\n",
  "event: empty\n\nid: 8\n\ndata: ünï 💡\n\n",
].join("");

const EVENTS = [
  { event: "model", data: '{"a":1}', id: "7" },
  { event: "message", data: "first\nsecond", id: "7" },
  { event: "message", data: "no space", id: "7" },
  { event: "message", data: "", id: "7" },
  { event: "message", data: "ünï 💡", id: "8" },
];

describe("SseParser", () => {
  it("reads the same events however the text is cut", () => {
    for (let first = 0; first <= STREAM.length; first += 1) {
      for (const size of [1, 3, 1000]) {
        const parser = new SseParser();
        const pieces = [STREAM.slice(0, first)];
        for (let at = first; at < STREAM.length; at += size) pieces.push(STREAM.slice(at, at + size));
        expect(pieces.flatMap((piece) => parser.push(piece))).toEqual(EVENTS);
        expect(parser.retry).toBe(2000);
        expect(parser.lastId).toBe("8");
      }
    }
  });

  it("gives no event that has not ended", () => {
    const parser = new SseParser();
    expect(parser.push("data: half\n")).toEqual([]);
    expect(parser.push("\n")).toEqual([{ event: "message", data: "half", id: "" }]);
  });

  it("leaves out a byte order mark, a bad retry and an id with NUL", () => {
    const parser = new SseParser();
    expect(parser.push("\uFEFFid: a\0b\nretry: soon\ndata: x\n\n")).toEqual([
      { event: "message", data: "x", id: "" },
    ]);
    expect(parser.retry).toBeNull();
  });
});
