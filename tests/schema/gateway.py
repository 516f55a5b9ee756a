"""A gateway with everything around it that the tests of the OpenAPI document need: a database of its own, engines that
are processes of this machine (the simulator), a model hub, and one person of each role."""

import contextlib
import http.cookiejar
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import PATIENCE, end, first_match  # noqa: E402

GANTRY = os.environ["GANTRY"]
OWNER = {"username": "owner", "password": "owner-password"}
PASSWORD = "correct-horse-battery"
ROLES = ["owner", "admin", "org_admin", "user", "anonymous"]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}  # fmt: skip
# Served by the models that run from the beginning, one for each kind of work.
SERVED = {"generate": "here", "embed": "vectors"}


def postgres(stack, url):
    """A database of our own; gone at the end."""
    name = f"schema_{uuid.uuid4().hex[:12]}"
    psql = ["psql", "-q", "-v", "ON_ERROR_STOP=1", url, "-c"]
    subprocess.run([*psql, f"CREATE DATABASE {name}"], check=True, stdout=subprocess.DEVNULL)
    drop = [*psql, f"DROP DATABASE {name} WITH (FORCE)"]
    stack.callback(lambda: subprocess.run(drop, check=False, stdout=subprocess.DEVNULL))
    return re.sub(r"/[^/?]*(\?|$)", rf"/{name}\1", url)


class Hub(http.server.BaseHTTPRequestHandler):
    """A model hub that has every repository whose owner's name has an even number of letters."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name, _, file = self.path.partition("?")[0].partition("/resolve/main/")
        known = file == "config.json" and len(name.split("/")[1]) % 2 == 0
        body = json.dumps(CONFIG if known else {"error": "not found"}).encode()
        self.send_response(200 if known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def hub(stack):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    return f"http://127.0.0.1:{server.server_port}"


class Gateway:
    def __init__(self, stack, database):
        self.dir = stack.enter_context(tempfile.TemporaryDirectory())
        folder = f"{self.dir}/models/m"
        os.makedirs(folder)
        with open(f"{folder}/config.json", "w") as file:
            json.dump(CONFIG, file)
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= {
            "GATEWAY_LISTEN": "127.0.0.1:0",
            "METRICS_LISTEN": "127.0.0.1:0",
            "DATA_DIR": f"{self.dir}/data",
            "MODELS_DIR": f"{self.dir}/models",
            "ADMIN_BOOTSTRAP_USERNAME": OWNER["username"],
            "ADMIN_BOOTSTRAP_PASSWORD": OWNER["password"],
            "CONTAINER_RUNTIME": "process",
            "PRIMARY_ENGINE_COMMAND": f"{GANTRY} engine-sim --flavour vllm",
            "SECONDARY_ENGINE_COMMAND": f"{GANTRY} engine-sim --flavour llamacpp",
            "HEALTH_POLL_SEC": "2",
            "STOP_TIMEOUT_SEC": "2",
            "HUB_ENDPOINT": hub(stack),
        }
        if database == "postgres":
            env["DATABASE_URL"] = postgres(stack, os.environ["TEST_POSTGRES_URL"])
        self.log = stack.enter_context(open(f"{self.dir}/log", "w+"))
        self.process = subprocess.Popen(
            [GANTRY, "serve"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        stack.callback(self.end)
        self.url = first_match(r"UI and API +(http://\S+?)/", self.process.stdout)
        self.document = self.call("GET", "/openapi.json", None)
        self.cookies = {"anonymous": None, "owner": self.sign_in(OWNER["username"], OWNER["password"])}
        owner = self.cookies["owner"]
        tenant = self.call("POST", "/admin/orgs", owner, {"name": "Tenant"})["id"]
        for role in ROLES[1:4]:
            body = {"username": role, "password": PASSWORD, "role": role}
            if role != "admin":
                body["org_id"] = tenant
            self.last_person = self.call("POST", "/admin/users", owner, body)["id"]
            self.cookies[role] = self.sign_in(role, PASSWORD)
        for task, name in SERVED.items():
            model = {"served_name": name, "engine_type": "vllm", "local_path": "m", "task": task, "force": True}
            self.last_model = self.call("POST", "/admin/models", owner, model)["id"]
            self.call("POST", f"/admin/models/{self.last_model}/start", owner)
        self.wait_for_models("running", range(1, self.last_model + 1))

    def wait_for_models(self, wanted, ids):
        deadline = time.monotonic() + PATIENCE
        for id in ids:
            while (model := self.call("GET", f"/admin/models/{id}", self.cookies["owner"]))["state"] != wanted:
                if model["state"] == "failed" or time.monotonic() > deadline:
                    raise RuntimeError(f"a model is {model['state']}: {model['state_reason']}")
                time.sleep(0.1)

    def end(self):
        end(self.process)
        # Engines outlive their gateway. Each process of theirs says whose it is in its environment.
        with open(f"{self.dir}/data/instance") as file:
            mark = f"GANTRY_ENGINE_INSTANCE={file.read().strip()}/".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                if any(word.startswith(mark) for word in words):
                    os.kill(int(pid), signal.SIGKILL)

    def call(self, method, path, cookie, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        if cookie:
            request.add_header("cookie", f"svc_session={cookie}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = self.log_text()[-3000:]
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()}\n{said}") from None

    def sign_in(self, username, password):
        jar = http.cookiejar.CookieJar()
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
        request = urllib.request.Request(f"{self.url}/auth/login", method="POST")
        request.data = json.dumps({"username": username, "password": password}).encode()
        request.add_header("content-type", "application/json")
        urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE).close()
        return next(it.value for it in jar)

    def log_text(self):
        with open(self.log.name) as log:
            return log.read()

    def faults(self):
        """What the gateway itself said went wrong inside of it."""
        lines = self.log_text().splitlines()
        return [line for line in lines if "panicked" in line or "a database operation failed" in line]
