"""Reads a package and its dump, by docs/package-format.md and nothing else: no code of Gantry is used."""

import hashlib
import json
import os
import re

ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "\\": "\\"}
KINDS = {"BIGINT": "integer", "INTEGER": "integer", "BOOLEAN": "boolean", "TEXT": "text", "BYTEA": "bytes", "UUID": "uuid"}


class Wrong(Exception):
    pass


class Package:
    def __init__(self, folder, base=None):
        self.folder, self.base = folder, base
        if os.path.exists(f"{folder}/.gantry-export/manifest.json"):
            raise Wrong("the export has not ended")
        with open(f"{folder}/manifest.json", "rb") as file:
            text = file.read()
        self.sum = hashlib.sha256(text).hexdigest()
        self.manifest = json.loads(text)
        if self.manifest["format_version"] != 1:
            raise Wrong("another version of the format")
        needed = self.manifest.get("base")
        if needed and base and base.sum != needed["manifest_sha256"]:
            raise Wrong("another base")

    def content(self, name):
        entry = self.manifest["files"][name]
        if entry.get("in_base"):
            same = ("sha256", "size")
            pieces = self.manifest.get("pieces", {}).get(name, {})
            if "rest" in pieces:
                rest, content = self.content(pieces["rest"]), b""
                for piece in pieces["list"]:
                    if piece.get("in_base"):
                        content += self.base.piece(piece)
                    else:
                        content, rest = content + rest[: piece["size"]], rest[piece["size"] :]
                return content
            for other, it in self.base.manifest["files"].items():
                if all(it[field] == entry[field] for field in same):
                    return self.base.content(other)
            raise Wrong(f"{name} is not in the base")
        if "at" not in entry:
            with open(f"{self.folder}/{name}", "rb") as file:
                return file.read()
        content, at, left, size = b"", entry["at"], entry["size"], self.manifest["parts"]["size"]
        while left:
            with open(f"{self.folder}/parts/{at // size + 1:06}", "rb") as file:
                file.seek(at % size)
                piece = file.read(min(left, size - at % size))
            if not piece:
                raise Wrong("a part is too short")
            content, at, left = content + piece, at + len(piece), left - len(piece)
        return content

    def piece(self, wanted):
        for name, pieces in self.manifest.get("pieces", {}).items():
            at, content = 0, self.content(name)
            for piece in pieces["list"]:
                if all(piece[field] == wanted[field] for field in ("sha256", "size")):
                    return content[at : at + piece["size"]]
                at += piece["size"]
        raise Wrong("a piece is not in the base")

    def check(self):
        """Compares every file, every part, and the list of checksums."""
        for name, entry in self.manifest["files"].items():
            if entry.get("in_base") and not self.base:
                continue
            content = self.content(name)
            if len(content) != entry["size"] or hashlib.sha256(content).hexdigest() != entry["sha256"]:
                raise Wrong(f"{name} has another content")
        listed = {}
        with open(f"{self.folder}/checksums.sha256") as file:
            for line in file:
                listed[line[66:].rstrip("\n")] = line[:64]
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.folder)
                if path not in ("checksums.sha256", "manifest.json.minisig"):
                    with open(f"{self.folder}/{path}", "rb") as file:
                        found[path] = hashlib.sha256(file.read()).hexdigest()
        if found != listed or list(listed) != sorted(listed):
            raise Wrong("the list of checksums is another one")
        for number, sum in enumerate(self.manifest.get("parts", {}).get("sha256", []), 1):
            if listed[f"parts/{number:06}"] != sum:
                raise Wrong(f"part {number} has another content")


def value(text, kind):
    """The bytes of a value that the digest of a table is made of."""
    number = lambda it, n=8: it.to_bytes(n, "little", signed=True)
    if text == "\\N":
        return b"\0"
    text = re.sub(r"\\(.)", lambda it: ESCAPES[it.group(1)], text)
    if kind == "integer":
        return b"\1" + number(int(text))
    if kind == "boolean":
        return b"\1" + number({"t": 1, "f": 0}[text])
    if kind == "text":
        return b"\2" + number(len(text.encode())) + text.encode()
    digits = text.replace("-", "") if kind == "uuid" else text.removeprefix("\\x")
    return b"\3" + number(len(digits) // 2) + bytes.fromhex(digits)


def kinds(migrations):
    """The type of each column, by table, from the migrations of Postgres."""
    tables = {}
    for name in sorted(os.listdir(migrations)):
        with open(f"{migrations}/{name}") as file:
            text = re.sub(r"--.*", "", file.read())
        for table, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.S):
            for column, kind in re.findall(r"^\s*(\w+)\s+([A-Z]+)", columns, re.M):
                tables.setdefault(table, {})[column] = KINDS.get(kind)
        for table, column, kind in re.findall(r"ALTER TABLE (\w+)\s+ADD COLUMN (\w+)\s+([A-Z]+)", text):
            tables[table][column] = KINDS[kind]
    return tables


def dump(text, kinds):
    """Returns header, rows by table, and proof of a dump. Its rows must be those that the proof counts."""
    lines = text.split("\n")
    if lines.pop() != "" or not lines[-1].startswith("-- gantry-proof: "):
        raise Wrong("the dump is cut off")
    header = json.loads(lines[0].removeprefix("-- gantry-dump: "))
    proof = json.loads(lines.pop().removeprefix("-- gantry-proof: "))
    rows, digests, columns, table = {}, {}, [], None
    for line in lines[1:]:
        if table:
            if line == "\\.":
                table = None
                continue
            values = line.split("\t")
            if len(values) != len(columns):
                raise Wrong(f"a row of {table} has {len(values)} values")
            bytes = b"".join(value(text, kinds[table][column]) for text, column in zip(values, columns))
            digests[table] += int.from_bytes(hashlib.sha256(bytes).digest()[:16], "little")
            rows[table].append(dict(zip(columns, values)))
        elif begin := re.fullmatch(r"COPY public\.(\w+) \((.*)\) FROM stdin;", line):
            table, columns = begin.group(1), begin.group(2).split(", ")
            rows[table], digests[table] = [], 0
        elif line and not line.startswith("--"):
            if not re.fullmatch(r"SELECT pg_catalog\.setval\('public\.\w+', \d+, (true|false)\);", line):
                raise Wrong(f"a line that is not in the grammar: {line}")
    if {name: len(all) for name, all in rows.items()} != proof["rows"] or list(rows) != sorted(rows):
        raise Wrong("the numbers of rows are others")
    if {name: f"{digest % 2**128:032x}" for name, digest in digests.items()} != proof["digests"]:
        raise Wrong("the digests are others")
    return header, rows, proof
