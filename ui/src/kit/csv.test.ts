import { expect, test } from "vitest";
import { csvOf } from "./csv";

test("cells are quoted where they must be, and no text is a formula", () => {
  const rows = [
    ['a "b", c', 1, null],
    ["=cmd|'/C calc'!A0", -1, "two\nlines"],
  ];
  expect(csvOf(["name", "n", "more"], rows)).toBe(
    'name,n,more\r\n"a ""b"", c",1,\r\n\'=cmd|\'/C calc\'!A0,-1,"two\nlines"\r\n',
  );
});
