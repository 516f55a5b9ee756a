"""Schemathesis over the served OpenAPI document.

GANTRY names the program. No container runtime is there: starts end with a documented refusal. The last line is
`N passed, N failed`; one test is one role on one database. Shortly: examples and a few cases of fuzzing as three roles
on SQLite, each role for SHORT_SECONDS at most. SCHEMA_LONG=1: all phases, as every role, on SQLite and
(TEST_POSTGRES_URL) Postgres, without a limit.
"""

import contextlib
import http.cookiejar
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

GANTRY = os.environ["GANTRY"]
LONG = os.environ.get("SCHEMA_LONG") == "1"
HERE = os.path.dirname(os.path.abspath(__file__))
OWNER = {"username": "owner", "password": "owner-password"}
PASSWORD = "correct-horse-battery"
# A role that is not through by then passes if nothing failed until then; its line says so.
SHORT_SECONDS = 25
SHORT_ROLES = ["owner", "user", "anonymous"]
ROLES = ["owner", "admin", "org_admin", "user", "anonymous"]
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "positive_data_acceptance", "ignored_auth",
    "use_after_free", "ensure_resource_availability", "unsupported_method",
]  # fmt: skip

STATUSES = {
    # 502 and 503 are no faults here: there is no engine, no container runtime and no model hub.
    "not_a_server_error": ["2xx", "4xx", "502", "503"],
    # 409 and 503: the state of other objects.
    "positive_data_acceptance": ["2xx", "401", "403", "404", "409", "429", "503"],
    "negative_data_rejection": ["400", "401", "403", "404", "405", "409", "413", "415", "421", "422", "429", "503"],
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
# What would end the run itself, and a stream without an end.
EXCLUDED = ["signOut", "changeOwnPassword", "streamEvents"]


def first_match(pattern, stream, seconds=60):
    """The first group of `pattern` in a child's output; a thread reads on, so that the child never blocks."""
    found, lines, event = [], [], threading.Event()

    def read():
        for line in stream:
            lines.append(line)
            if not found and (match := re.search(pattern, line)):
                found.append(match.group(1))
                event.set()
        event.set()

    threading.Thread(target=read, daemon=True).start()
    if not event.wait(seconds) or not found:
        raise RuntimeError(f"no {pattern!r} in {''.join(lines)}")
    return found[0]


def postgres(stack, url):
    """A database of our own; gone at the end."""
    name = f"schema_{uuid.uuid4().hex[:12]}"
    psql = ["psql", "-q", "-v", "ON_ERROR_STOP=1", url, "-c"]
    subprocess.run([*psql, f"CREATE DATABASE {name}"], check=True, stdout=subprocess.DEVNULL)
    drop = [*psql, f"DROP DATABASE {name} WITH (FORCE)"]
    stack.callback(lambda: subprocess.run(drop, check=False, stdout=subprocess.DEVNULL))
    return re.sub(r"/[^/]*$", f"/{name}", url)


class Gateway:
    def __init__(self, stack, database):
        self.dir = stack.enter_context(tempfile.TemporaryDirectory())
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= {
            "GATEWAY_LISTEN": "127.0.0.1:0",
            "METRICS_LISTEN": "127.0.0.1:0",
            "DATA_DIR": f"{self.dir}/data",
            "ADMIN_BOOTSTRAP_USERNAME": OWNER["username"],
            "ADMIN_BOOTSTRAP_PASSWORD": OWNER["password"],
            "CONTAINER_HOST": f"unix://{self.dir}/nothing.sock",
            "OFFLINE_MODE": "true",
        }
        if database == "postgres":
            env["DATABASE_URL"] = postgres(stack, os.environ["TEST_POSTGRES_URL"])
        self.log = stack.enter_context(open(f"{self.dir}/log", "w+"))
        process = subprocess.Popen(
            [GANTRY, "serve"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        stack.callback(self.end, process)
        self.process = process
        self.url = first_match(r"UI and API +(http://\S+?)/", process.stdout)
        self.cookies = {"anonymous": None, "owner": self.sign_in(OWNER["username"], OWNER["password"])}
        owner = self.cookies["owner"]
        tenant = self.call("POST", "/admin/orgs", owner, {"name": "Tenant"})["id"]
        for role in ROLES[1:4]:
            body = {"username": role, "password": PASSWORD, "role": role}
            if role != "admin":
                body["org_id"] = tenant
            self.last_id = self.call("POST", "/admin/users", owner, body)["id"]
            self.cookies[role] = self.sign_in(role, PASSWORD)
        # Something to look at, for who may.
        model = {"served_name": "here", "engine_type": "vllm", "local_path": "m"}
        self.call("POST", "/admin/models", owner, model)
        self.token = self.call("POST", "/admin/keys", owner, {"name": "schema"})["token"]

    def end(self, process):
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def call(self, method, path, cookie, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        if cookie:
            request.add_header("cookie", f"svc_session={cookie}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return json.load(answer)

    def sign_in(self, username, password):
        jar = http.cookiejar.CookieJar()
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
        request = urllib.request.Request(f"{self.url}/auth/login", method="POST")
        request.data = json.dumps({"username": username, "password": password}).encode()
        request.add_header("content-type", "application/json")
        urllib.request.build_opener(*handlers).open(request, timeout=60).close()
        return next(it.value for it in jar)

    def faults(self):
        """What the gateway itself said went wrong inside of it."""
        self.log.flush()
        with open(self.log.name) as log:
            return [line for line in log if "panicked" in line or "a database operation failed" in line]


def config(cookie):
    """schemathesis.toml: who asks, what is checked, and where a valid request may be refused."""
    lines = ["[checks]", "enabled = false"]
    for name in CHECKS:
        lines += [f"[checks.{name}]", "enabled = true"]
        if name in STATUSES:
            lines += [f"expected-statuses = {STATUSES[name]}"]
    # Without links that are followed, nothing is used after it was deleted.
    lines += ["[phases.stateful.generation]", f"max-examples = 200"]
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
            "SCHEMA_PROTECTED_IDS": str(gateway.last_id),
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


def main():
    databases = ["sqlite"]
    if not LONG:
        print("SKIP all other roles, Postgres, coverage and stateful testing: SCHEMA_LONG=1 has them")
    elif os.environ.get("TEST_POSTGRES_URL") and shutil.which("psql"):
        databases.append("postgres")
    else:
        print("SKIP postgres: no TEST_POSTGRES_URL, or no psql")
    only = os.environ.get("SCHEMA_ROLES", " ".join(ROLES if LONG else SHORT_ROLES)).split()
    passed = failed = 0
    for database in databases:
        with contextlib.ExitStack() as stack:
            gateway = Gateway(stack, database)
            for role in only:
                examples = 100 if LONG else 2
                phases = "examples,coverage,fuzzing,stateful" if LONG else "examples,fuzzing"
                started = time.monotonic()
                good, note = check(gateway, role, examples, phases)
                seconds = time.monotonic() - started
                print(f"{'PASS' if good else 'FAIL'} {database} as {role} ({seconds:.0f} s{note})", flush=True)
                passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
