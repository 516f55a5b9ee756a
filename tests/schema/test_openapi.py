"""Schemathesis over the served OpenAPI document: all phases, as every role, on SQLite and (TEST_POSTGRES_URL) Postgres.

GANTRY names the program. No container runtime is there: starts end with a documented refusal. The last line is
`N passed, N failed`; one test is one role on one database. SCHEMA_LONG=1 takes minutes instead of a minute and a half.
"""

import contextlib
import http.cookiejar
import json
import os
import re
import shutil
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
    lines += ["[phases.stateful.generation]", f"max-examples = {200 if LONG else 30}"]
    if cookie:
        lines += ["[auth.openapi.session]", f'api_key = "{cookie}"']
    for operation in [*DEPENDENT, *INFERENCE]:
        lines += ["[[operations]]", f'include-operation-id = "{operation}"']
        lines += ["checks.positive_data_acceptance.enabled = false"]
        # Some 120 settings, each with all its bounds: the preview reads the same form.
        if not LONG and operation in ("createModel", "changeModel"):
            lines += ["phases.coverage.enabled = false"]
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
        if not LONG:
            command += ["--seed", "1", "--no-shrink"]
        for operation in EXCLUDED:
            command += ["--exclude-operation-id", operation]
        env = os.environ | {
            "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1",
            "SCHEMA_PROTECTED_IDS": str(gateway.last_id),
        }  # fmt: skip
        result = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=1800)
        faults = gateway.faults()
        if result.returncode or faults:
            print(result.stdout[-int(os.environ.get("SCHEMA_SHOWN", 6000)):], result.stderr[-2000:], *faults, sep="\n")
        return result.returncode == 0 and not faults and gateway.process.poll() is None


def main():
    databases = ["sqlite"]
    if os.environ.get("TEST_POSTGRES_URL") and shutil.which("psql"):
        databases.append("postgres")
    else:
        print("SKIP postgres: no TEST_POSTGRES_URL, or no psql")
    only = os.environ.get("SCHEMA_ROLES", " ".join(ROLES)).split()
    passed = failed = 0
    for database in databases:
        with contextlib.ExitStack() as stack:
            gateway = Gateway(stack, database)
            for role in only:
                # The most powerful role reaches most code; what others are refused needs few examples.
                most = role == "owner"
                examples = 100 if LONG else (6 if most else 2)
                phases = ["examples", "fuzzing"]
                phases += ["stateful"] if LONG or most else []
                # What is refused while it is read never comes to a database.
                phases += ["coverage"] if LONG or (most and database == "sqlite") else []
                started = time.monotonic()
                good = check(gateway, role, examples, ",".join(phases))
                seconds = time.monotonic() - started
                print(f"{'PASS' if good else 'FAIL'} {database} as {role} ({seconds:.0f} s)", flush=True)
                passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
