"""Schemathesis over the served OpenAPI document: as every role, on SQLite and (TEST_POSTGRES_URL) Postgres, both at once.

GANTRY names the program. The last line is `N passed, N failed`; one test is one role on one database.

Shortly: each role has all examples, a case of fuzzing for each operation (a half of them on each database) and a few
stateful scenarios; coverage of all operations is the owner's, who may do everything, a half on each database, and the
others have a few of them. The seeds are always the same, so that a rare fault refuses no change that has nothing to
do with it. SCHEMA_LONG=1: all phases of all operations for every role, much more of each, and a new seed each time,
which the lines say. A run that does not end has failed. What was deleted: test_deleted.py.

    SCHEMA_SEED=…        the seed of all runs
    SCHEMA_DATABASES=…   `sqlite`, `postgres`
    SCHEMA_ROLES=…       some of the roles
    SCHEMA_EXAMPLES=…    cases of fuzzing for each operation
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from gateway import ROLES, Gateway

# Found by way of `gateway`.
from common import PATIENCE  # noqa: E402, I001

LONG = os.environ.get("SCHEMA_LONG") == "1"
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", 50 if LONG else 1))
SCENARIOS = 200 if LONG else 3
# Shortly, roles other than the owner cover so many operations in each run.
COVERED = 3
# Seconds after which a run hangs. On an idle machine it takes 1 % of that.
LIMIT = 7200 if LONG else 900
SEEDS = {"sqlite": 1, "postgres": 2}
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "positive_data_acceptance", "ignored_auth",
    "use_after_free", "ensure_resource_availability", "unsupported_method", "allow_header_conformance",
]  # fmt: skip

STATUSES = {
    # Engines, a hub and a database are there, so that nothing may say that one of them is missing.
    "not_a_server_error": ["2xx", "4xx"],
    # 409: the state of other objects. 412: the object is not as `If-Match` says.
    "positive_data_acceptance": ["2xx", "401", "403", "404", "409", "412", "429"],
    "negative_data_rejection": ["400", "401", "403", "404", "405", "409", "413", "415", "421", "422", "429"],
}
# Where a body or a query that fits the schema may still be refused, because of other objects or other fields.
DEPENDENT = {
    "createKey": "the user must be of the organisation",
    "changeKey": "it must end in the future",
    "createOwnKey": "its limits may be no milder than the gateway's, and its mode is not its holder's to choose",
    "createOwnToken": "it must end in the future, within 366 days",
    "listOwnUsage": "`from` must be before `to`",
    "aggregateOwnUsage": "`from` must be before `to`",
    "getOwnUsageSeries": "`from` must be before `to`, and not too far",
    "addRegistryEntry": "`url` or `urls`, not both",
    "changeRegistryEntry": "`url` or `urls`, not both; a key goes to no new address",
    "createModel": "settings depend on each other, and on the role",
    "changeModel": "settings depend on each other, and on the role",
    "previewModel": "settings depend on each other, and on the role",
    "previewSavedModel": "settings depend on each other, and on the role",
    "listAuditLog": "`from` must be before `to`",
    "refreshUpstreams": "something must be served under the names",
    "listUsage": "`from` must be before `to`",
    "aggregateUsage": "`from` must be before `to`",
    "getUsageSeries": "`from` must be before `to`, and not too far",
    "getUsageLatency": "`from` must be before `to`",
    "getUsageTtft": "`from` must be before `to`",
    "exportUsage": "`from` must be before `to`",
    "changeModelsBaseDir": "the directory must exist",
    "loadContainerImages": "the file must exist",
    "inspectFolder": "the folder must exist",
    "getHubConfig": "the hub must know the repository",
    "getModelLogs": "there must be a container",
    "listModelManifests": "the package must be whole",
    "importPackage": "the package must be whole",
    "importModel": "the package must be whole",
    "checkDatabaseDump": "the package must be whole",
    "restoreDatabase": "the package must be whole",
}
# What an engine takes is the engine's to say, and whether it can be reached.
INFERENCE = [
    "createChatCompletion", "createCompletion", "createEmbedding", "createResponse", "createMessage",
    "countMessageTokens", "rerank", "score", "tokenize", "detokenize",
]  # fmt: skip
# What would end the run itself.
EXCLUDED = ["signOut", "changeOwnPassword", "endOwnSession", "endOtherSessions"]


def config(cookie, uncovered, unfuzzed):
    """schemathesis.toml: who asks, what is checked, and where a valid request may be refused."""
    # Of a stream of events the first is enough.
    lines = ["max-stream-events = 1", "[checks]", "enabled = false"]
    for name in CHECKS:
        lines += [f"[checks.{name}]", "enabled = true"]
        if name in STATUSES:
            lines += [f"expected-statuses = {STATUSES[name]}"]
    # Without links that are followed, nothing is used after it was deleted.
    lines += ["[phases.stateful.generation]", f"max-examples = {SCENARIOS}"]
    if cookie:
        lines += ["[auth.openapi.session]", f'api_key = "{cookie}"']
    lenient = {*DEPENDENT, *INFERENCE}
    for operation in sorted(lenient | set(uncovered) | set(unfuzzed)):
        lines += ["[[operations]]", f'include-operation-id = "{operation}"']
        if operation in lenient:
            lines += ["checks.positive_data_acceptance.enabled = false"]
        if operation in uncovered:
            lines += ["phases.coverage.enabled = false"]
        if operation in unfuzzed:
            lines += ["phases.fuzzing.enabled = false"]
    return "\n".join(lines) + "\n"


# What was started and still runs; nothing is started any more once `stop` was called.
RUNNING, STOPPING, LOCK = set(), threading.Event(), threading.Lock()


def stop(*_):
    """A runner ends what takes too long so. Then the gateways end as they always do, and their engines with them."""
    STOPPING.set()
    for process in list(RUNNING):
        process.terminate()


def check(gateway, role, seed, covered, fuzzed):
    """Whether all is well, the output if not, and a note."""
    everything = {it["operationId"] for path in gateway.document["paths"].values() for it in path.values()}
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/schemathesis.toml"
        with open(path, "w") as file:
            left_out = [[] if LONG else everything - set(it) for it in (covered, fuzzed)]
            file.write(config(gateway.cookies[role], *left_out))
        command = [
            os.path.join(os.path.dirname(sys.executable), "st"), "--config-file", path, "run",
            f"{gateway.url}/openapi.json", "--phases", "examples,coverage,fuzzing,stateful", "--no-color",
            # One worker: two at once trip over each other inside of Python 3.11's parser, which Hypothesis uses
            # (SystemError: AST constructor recursion depth mismatch, python/cpython#106905).
            "--max-examples", str(EXAMPLES), "--seed", str(seed), "--workers", "1", "--request-timeout", str(PATIENCE),
            "--continue-on-failure", "--warnings", "off", "--suppress-health-check", "all",
            "--generation-database", "none",
            # A connection may be closed for its idleness just when it is used again. A gateway that ends or panics is found.
            "--request-retries", "1",
        ]  # fmt: skip
        if not LONG:
            command += ["--no-shrink"]
        for operation in EXCLUDED:
            command += ["--exclude-operation-id", operation]
        env = os.environ | {
            "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1",
            "SCHEMA_LAST_PERSON": str(gateway.last_person), "SCHEMA_LAST_MODEL": str(gateway.last_model),
        }  # fmt: skip
        code, output, note = run(command, place, env)
        faults = gateway.faults()
        good = code == 0 and not faults and gateway.process.poll() is None
        return good, "" if good else "\n".join([output[-20_000:], *faults]), note


def run(command, place, env):
    """Exit status, output and a note."""
    with open(os.path.join(place, "output"), "w+") as output:
        process = subprocess.Popen(command, cwd=place, env=env, stdout=output, stderr=subprocess.STDOUT)
        RUNNING.add(process)
        note = ""
        try:
            process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            # With an interrupt it tells what it found until then.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            note = f", hung for {LIMIT} s"
        RUNNING.discard(process)
        output.seek(0)
        text = output.read()
    counted = re.findall(r"(\d+) generated[^\n]*", text)
    if counted:
        note += f", {counted[-1]} cases"
    return (1 if "hung" in note else process.returncode), text, note


def skip_postgres():
    """Tells the script that lists what did not run."""
    why = "postgres\tno TEST_POSTGRES_URL, or no psql"
    print("SKIP " + why.replace("\t", ": "))
    if path := os.environ.get("GANTRY_SKIPPED_PARTS"):
        with open(path, "a") as file:
            file.write(why.replace("\t", "-openapi\tSKIP\t") + "\n")


def databases():
    named = os.environ.get("SCHEMA_DATABASES", "sqlite postgres").split()
    if "postgres" in named and not (os.environ.get("TEST_POSTGRES_URL") and shutil.which("psql")):
        skip_postgres()
        named.remove("postgres")
    return named


def again(database, seed):
    """What runs all roles of a long run again. The seeds of a short run are the same in any case."""
    settings = f"SCHEMA_LONG=1 SCHEMA_SEED={seed} SCHEMA_EXAMPLES={EXAMPLES} SCHEMA_DATABASES={database}"
    return f"{settings} scripts/test-clients.sh tests/schema/test_openapi.py"


def check_all(database, named):
    """How many roles passed and failed on this database, which is one of `named`."""
    roles = os.environ.get("SCHEMA_ROLES", " ".join(ROLES)).split()
    fixed = os.environ.get("SCHEMA_SEED") or (None if LONG else SEEDS[database])
    seed = int(fixed) if fixed else random.randrange(1 << 31)
    if not fixed:
        with LOCK:
            print(f"{database} (seed {seed}), the same again: {again(database, seed)}", flush=True)
    passed = failed = 0
    with contextlib.ExitStack() as stack:
        try:
            gateway = Gateway(stack, database)
        except (OSError, RuntimeError) as error:
            with LOCK:
                print(f"FAIL {database}: the gateway can't be set up: {error}")
            return 0, len(roles)
        operations = sorted(it["operationId"] for path in gateway.document["paths"].values() for it in path.values())
        mine = operations[named.index(database) :: len(named)]
        random.Random(seed).shuffle(operations)
        for n, role in enumerate(roles):
            if STOPPING.is_set():
                failed += 1
                continue
            started = time.monotonic()
            covered = mine if role == "owner" else operations[n * COVERED : (n + 1) * COVERED]
            good, output, note = check(gateway, role, seed, covered, mine)
            seconds = time.monotonic() - started
            with LOCK:
                print(output, end="")
                word = "PASS" if good else "FAIL"
                print(f"{word} {database} as {role} (seed {seed}, {seconds:.0f} s{note})", flush=True)
                if LONG and not good:
                    print(f"    the same again: {again(database, seed)}", flush=True)
            passed, failed = passed + good, failed + (not good)
    return passed, failed


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with ThreadPoolExecutor() as pool:
        named = databases()
        counts = list(pool.map(check_all, named, [named] * len(named)))
    passed, failed = (sum(it) for it in zip(*counts))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
