import { describe, expect, it } from "vitest";
import { makeFormat } from "./format";

const plain = (text: string) => text.replaceAll("\u202f", " ");
const en = makeFormat("en", "UTC");
const de = makeFormat("de", "Europe/Berlin");

describe("format", () => {
  it.each([
    [0, "0"],
    [7.5, "7.5"],
    [999, "999"],
    [1000, "1 k"],
    [1240, "1.24 k"],
    [12_449, "12.4 k"],
    [999_600, "1 M"],
    [1_240_000, "1.24 M"],
  ])("writes the count %d as %s", (value, text) => expect(plain(en.compact(value))).toBe(text));

  it.each([
    [0, "0 B"],
    [1000, "1,000 B"],
    [1536, "1.5 KiB"],
    [3_221_225_472, "3 GiB"],
  ])("writes %d bytes as %s", (value, text) => expect(plain(en.bytes(value))).toBe(text));

  it.each([
    [0, "0 ms"],
    [4.25, "4.3 ms"],
    [850, "850 ms"],
    [1240, "1.24 s"],
    [125_000, "2 min 5 s"],
    [3_600_000, "1 h"],
    [187_200_000, "2 d 4 h"],
  ])("writes %d ms as %s", (value, text) => expect(plain(en.duration(value))).toBe(text));

  it("writes German numbers with a comma", () => {
    expect(plain(de.compact(1_240_000))).toBe("1,24 M");
    expect(de.integer(1_234_567)).toBe("1.234.567");
  });

  it("writes times in the zone and relative to now", () => {
    const at = Date.UTC(2026, 10, 23, 17, 20, 5);
    expect(en.dateTime(at)).toBe("23 Nov 2026, 17:20:05");
    expect(de.time(at)).toBe("18:20:05");
    expect(en.relative(at, at + 3000)).toBe("now");
    expect(en.relative(at, at - 35_000)).toBe("now");
    expect(en.relative(at, at + 180_000)).toBe("3 minutes ago");
    expect(en.relative(at + 2 * 86_400_000, at)).toBe("in 2 days");
    expect(de.relative(at, at + 7_200_000)).toBe("vor 2 Stunden");
  });
});
