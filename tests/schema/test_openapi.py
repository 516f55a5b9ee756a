"""Schemathesis over the served OpenAPI document.

GANTRY names the program. No container runtime is there: starts end with a documented refusal. The last line is
`N passed, N failed`; one test is one role on one database. Shortly: examples and a few cases of fuzzing as three roles
on SQLite, each role for SHORT_SECONDS at most. SCHEMA_LONG=1: all phases, as every role, on SQLite and
(TEST_POSTGRES_URL) Postgres, without a limit.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from gateway import ROLES, Gateway

LONG = os.environ.get("SCHEMA_LONG") == "1"
HERE = os.path.dirname(os.path.abspath(__file__))
# A role that is not through by then passes if nothing failed until then; its line says so.
SHORT_SECONDS = 25
SHORT_ROLES = ["owner", "user", "anonymous"]
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "positive_data_acceptance", "ignored_auth",
    "use_after_free", "ensure_resource_availability", "unsupported_method", "allow_header_conformance",
]  # fmt: skip

STATUSES = {
    # Engines, a hub and a database are there, so that nothing may say that one of them is missing.
    "not_a_server_error": ["2xx", "4xx"],
    # 409: the state of other objects.
    "positive_data_acceptance": ["2xx", "401", "403", "404", "409", "429"],
    "negative_data_rejection": ["400", "401", "403", "404", "405", "409", "413", "415", "421", "422", "429"],
}
# Where a body or a query that fits the schema may still be refused, because of other objects or other fields.
DEPENDENT = {
    "createKey": "the organisation and the user must exist",
    "changeKey": "scopes and times depend on the clock",
    "createOwnKey": "times depend on the clock",
    "createUser": "the organisation must exist",
    "changeUser": "the organisation must exist",
    "createModel": "settings depend on each other, and on the role",
    "changeModel": "settings depend on each other, and on the role",
    "previewModel": "settings depend on each other, and on the role",
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
    "addRegistryEntry": "`running` is reserved",
}
# What an engine takes is the engine's to say, and whether it can be reached.
INFERENCE = [
    "createChatCompletion", "createCompletion", "createEmbedding", "createResponse", "createMessage",
    "countMessageTokens", "rerank", "score", "tokenize", "detokenize",
]  # fmt: skip
# What would end the run itself.
EXCLUDED = ["signOut", "changeOwnPassword"]


def config(cookie):
    """schemathesis.toml: who asks, what is checked, and where a valid request may be refused."""
    # Of a stream of events the first is enough.
    lines = ["max-stream-events = 1", "[checks]", "enabled = false"]
    for name in CHECKS:
        lines += [f"[checks.{name}]", "enabled = true"]
        if name in STATUSES:
            lines += [f"expected-statuses = {STATUSES[name]}"]
    # Without links that are followed, nothing is used after it was deleted.
    lines += ["[phases.stateful.generation]", f"max-examples = {os.environ.get('SCHEMA_STATEFUL', 200)}"]
    if cookie:
        lines += ["[auth.openapi.session]", f'api_key = "{cookie}"']
    for operation in [*DEPENDENT, *INFERENCE]:
        lines += ["[[operations]]", f'include-operation-id = "{operation}"']
        lines += ["checks.positive_data_acceptance.enabled = false"]
    return "\n".join(lines) + "\n"


def check(gateway, role, examples, phases):
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/schemathesis.toml"
        with open(path, "w") as file:
            file.write(config(gateway.cookies[role]))
        command = [
            os.path.join(os.path.dirname(sys.executable), "st"), "--config-file", path, "run",
            f"{gateway.url}/openapi.json", "--phases", phases, "--no-color",
            "--max-examples", str(examples), "--workers", "2", "--request-timeout", "30", "--warnings", "off",
            "--continue-on-failure", "--suppress-health-check", "all", "--generation-database", "none",
        ]  # fmt: skip
        limit = 1800
        if not LONG:
            command += ["--seed", "1", "--no-shrink", "--max-failures", "1"]
            limit = SHORT_SECONDS
        for operation in EXCLUDED:
            command += ["--exclude-operation-id", operation]
        env = os.environ | {
            "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1",
            "SCHEMA_LAST_PERSON": str(gateway.last_person), "SCHEMA_LAST_MODEL": str(gateway.last_model),
        }  # fmt: skip
        code, output, note = run(command, place, env, limit)
        faults = gateway.faults()
        good = code == 0 and not faults and gateway.process.poll() is None
        if not good:
            print(output[-int(os.environ.get("SCHEMA_SHOWN", 6000)):], *faults, sep="\n")
        return good, note


def run(command, place, env, limit):
    """Exit status, output and a note. Shortly, the end of the time is an end without failures, if there were none."""
    with open(os.path.join(place, "output"), "w+") as output:
        process = subprocess.Popen(command, cwd=place, env=env, stdout=output, stderr=subprocess.STDOUT)
        note = ""
        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            # With an interrupt it tells what it found until then.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            note = f", stopped after {limit} s"
        output.seek(0)
        text = output.read()
    counted = re.findall(r"(\d+) generated[^\n]*", text)
    if counted:
        note += f", {counted[-1]} requests"
    if "stopped" not in note:
        return process.returncode, text, note
    broken = LONG or re.search(r"^_+ .* _+$|= FAILURES =|= ERRORS =|❌|🚫", text, re.MULTILINE)
    return (1 if broken else 0), text, note


def databases():
    named = os.environ.get("SCHEMA_DATABASES", "sqlite postgres").split()
    if "postgres" in named and not (os.environ.get("TEST_POSTGRES_URL") and shutil.which("psql")):
        print("SKIP postgres: no TEST_POSTGRES_URL, or no psql")
        named.remove("postgres")
    return named


def main():
    roles = os.environ.get("SCHEMA_ROLES", " ".join(ROLES)).split()
    passed = failed = 0
    for database in databases():
        with contextlib.ExitStack() as stack:
            gateway = Gateway(stack, database)
            for role in roles:
                examples = int(os.environ.get("SCHEMA_EXAMPLES", 50 if LONG else 2))
                phases = "examples,coverage,fuzzing,stateful" if LONG else "examples,fuzzing"
                started = time.monotonic()
                good, note = check(gateway, role, examples, phases)
                seconds = time.monotonic() - started
                print(f"{'PASS' if good else 'FAIL'} {database} as {role} ({seconds:.0f} s{note})", flush=True)
                passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    # A runner ends what takes too long so; the engines must not be left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
