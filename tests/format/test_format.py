"""Reads packages of a gateway with the reader that knows docs/package-format.md only, and compares their bills of materials
with the official schema.

The last line is `N passed, N failed`.
"""

import contextlib
import os
import pathlib
import sys
import time

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

TESTS = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "schema"))

import reader  # noqa: E402
from gateway import Gateway  # noqa: E402

MIGRATIONS = TESTS / "../crates/store/migrations/postgres"


def export(gateway, name, more):
    owner = gateway.cookies["owner"]
    body = {"output_dir": name, "tar_models": True} | more
    job = gateway.call("POST", "/admin/deployment/export", owner, body)
    while job["status"] in ("pending", "running"):
        time.sleep(0.1)
        job = gateway.call("GET", f"/admin/deployment/jobs/{job['id']}", owner)
    if job["status"] != "completed":
        raise RuntimeError(f"no export: {job}")
    return f"{gateway.dir}/data/exports/{name}"


def packages(database):
    with contextlib.ExitStack() as stack:
        gateway = Gateway(stack, database)
        with open(f"{gateway.dir}/models/m/README.md", "w") as card:
            card.write("---\nlicense: apache-2.0\n---\n# A model\n")
        whole = reader.Package(export(gateway, "whole", {}))
        gateway.call("POST", "/admin/orgs", gateway.cookies["owner"], {"name": "Back\\slash and “more”"})
        parts = reader.Package(export(gateway, "parts", {"part_size": 1 << 20}))
        later = reader.Package(export(gateway, "later", {"since": "whole"}), base=whole)
        for package in (whole, parts, later):
            package.check()
            header, rows, proof = reader.dump(package.content("db/dump.sql").decode(), reader.kinds(MIGRATIONS))
            assert header["database"] == database and header["secrets"] == "without_env", header
            names = {row["name"] for row in rows["orgs"]}
            assert ("Back\\\\slash and “more”" in names) == (package is not whole), names
            assert proof["usage"]["requests"] == package.manifest["contents"]["database"]["requests"]
            bom = package.content("sbom.cdx.json").decode()
            assert '"apache-2.0"' in bom, bom
            error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(bom)
            assert not error, error
        # The reader sees what is wrong.
        with open(f"{whole.folder}/models/m/README.md", "a") as card:
            card.write("more")
        with contextlib.suppress(reader.Wrong):
            whole.check()
            raise AssertionError("the reader accepts a changed file")


passed, failed = 0, 0
for database in ["sqlite"] + ["postgres"] * ("TEST_POSTGRES_URL" in os.environ):
    try:
        packages(database)
        passed += 1
    except Exception as error:
        print(f"FAIL {database}: {error!r}")
        failed += 1
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
