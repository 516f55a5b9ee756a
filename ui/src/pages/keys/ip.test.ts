import { describe, expect, it } from "vitest";
import { isIpRange } from "./ip";

describe("isIpRange", () => {
  it.each([
    "10.0.0.0/8",
    "192.168.1.7",
    "0.0.0.0/0",
    "::1",
    "::",
    "2001:db8::/32",
    "1:2:3:4:5:6:7:8",
    "::ffff:10.0.0.1",
    "fe80::1/128",
  ])("takes %s", (text) => {
    expect(isIpRange(text)).toBe(true);
  });

  it.each([
    "",
    "10.0.0",
    "10.0.0.256",
    "10.0.0.01",
    "10.0.0.0/33",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "1:2:3:4:5:6:7:8:9",
    "1::2::3",
    "1:2:3:4:5:6:7::8",
    "2001:db8::/129",
    "localhost",
    "10.0.0.0 /8",
  ])("refuses %s", (text) => {
    // `1:2:3:4:5:6:7::8` has no group left for the two colons.
    expect(isIpRange(text)).toBe(false);
  });
});
