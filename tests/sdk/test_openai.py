"""OpenAI's own Python library, unchanged, against the gateway with simulated engines.

GANTRY names the program. Engines run in containers where a Docker engine answers, else as processes that are
registered by their address. The last line is `N passed, N failed`.
"""

import asyncio
import contextlib
import http.cookiejar
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import PATIENCE, end, end_with_us, first_match  # noqa: E402

GANTRY = os.environ["GANTRY"]
IMAGE = "localhost/gantry-engine-sim-vllm:0.32.0"
OWNER = {"username": "owner", "password": "owner-password"}
HELLO = [{"role": "user", "content": "Hello there"}]
MAX_BODY = 20_000
# At 50 tokens in a second all of them take longer than anybody waits.
LONG = 10_000
# Served name, task, and the simulator's options.
ENGINES = [
    ("chat", "generate", {}),
    ("embed", "embed", {}),
    ("paced", "generate", {"TOKENS_PER_SEC": "50"}),
    ("breaks", "generate", {"ERROR_AFTER": "3"}),
    ("unprocessable", "generate", {"ERROR_STATUS": "422"}),
    ("failing", "generate", {"ERROR_STATUS": "500"}),
]


# ---- the gateway and its engines ----


def until(what, probe):
    """Asks again and again until `probe` gives something true."""
    deadline = time.monotonic() + PATIENCE
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)
    return value


class Gateway:
    def __init__(self, stack):
        self.stack = stack
        self.dir = stack.enter_context(tempfile.TemporaryDirectory())
        self.docker = self.docker_answers()
        env = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        env |= {
            "GATEWAY_LISTEN": "127.0.0.1:0",
            "METRICS_LISTEN": "127.0.0.1:0",
            "DATA_DIR": f"{self.dir}/data",
            "ADMIN_BOOTSTRAP_USERNAME": OWNER["username"],
            "ADMIN_BOOTSTRAP_PASSWORD": OWNER["password"],
            "REQUEST_MAX_BODY_BYTES": str(MAX_BODY),
            "STOP_MODELS_ON_SHUTDOWN": "true",
        }
        log = stack.enter_context(open(f"{self.dir}/log", "w"))
        process = self.child([GANTRY, "serve"], env=env, stdout=subprocess.PIPE, stderr=log)
        self.url = first_match(r"UI and API +(http://\S+?)/", process.stdout)
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
        self.call("POST", "/auth/login", OWNER)
        self.processes, self.models = {}, {}
        if self.docker:
            self.use_ids_of_our_own()
        self.start_engines()

    def docker_answers(self):
        """Whether engines can run in containers; makes the simulator's image."""
        if not shutil.which("docker") or subprocess.run(["docker", "version"], capture_output=True).returncode:
            return False
        image = [GANTRY, "engine-sim", "image", "--flavour", "vllm"]
        return subprocess.run(image, capture_output=True).returncode == 0

    def use_ids_of_our_own(self):
        """Containers are named after model ids, and other gateways may use the low ones."""
        with contextlib.closing(sqlite3.connect(f"{self.dir}/data/gantry.db", timeout=PATIENCE)) as database, database:
            start = 10_000_000 + time.time_ns() // 1_000_000 % 100_000_000
            database.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('models', ?)", [start])

    def child(self, command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, **options)
        self.stack.callback(end, process)
        return process

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        with self.opener.open(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def start_engines(self):
        for name, task, faults in ENGINES:
            env = {f"GANTRY_SIM_{option}": value for option, value in faults.items()}
            if self.docker:
                body = {
                    "served_name": name, "task": task, "engine_type": "vllm", "engine_image": IMAGE,
                    "local_path": "simulated", "device": "cpu", "extra_env": env,
                }  # fmt: skip
                self.models[name] = self.call("POST", "/admin/models", body)["id"]
                self.call("POST", f"/admin/models/{self.models[name]}/start")
            else:
                self.register(name, task, env)
        for id in self.models.values():
            until(f"model {id} runs", lambda id=id: self.state(id) == "running")

    def register(self, name, task, env):
        command = [GANTRY, "engine-sim", "--flavour", "vllm", "serve", "sim:model", "--served-model-name", name]
        command += ["--host", "127.0.0.1", "--port", "0"]
        if task == "embed":
            command += ["--runner", "pooling", "--convert", "embed"]
        process = self.child(command, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        url = first_match(r"server on (http://\S+)", process.stderr)
        self.processes[name] = process
        self.call("POST", "/admin/models/registry", {"served_name": name, "url": url, "task": task})

    def state(self, id):
        record = self.call("GET", f"/admin/models/{id}")
        if record["state"] == "failed":
            raise RuntimeError(record["state_reason"])
        return record["state"]

    def kill_engine(self, name):
        if self.docker:
            subprocess.run(["docker", "kill", f"primary-model-{self.models[name]}"], check=True, capture_output=True)
        else:
            self.processes[name].kill()
            self.processes[name].wait()

    def client(self, kind=openai.OpenAI, **key):
        token = self.call("POST", "/admin/keys", key)["token"]
        return kind(base_url=f"{self.url}/v1", api_key=token, max_retries=0, timeout=PATIENCE)


# ---- the tests ----


def raises(kind, status, code, call, **arguments):
    """Checks what the library makes of a refusal; `None` stands for anything."""
    try:
        call(**arguments)
    except kind as error:
        assert status is None or error.status_code == status, error
        assert code is None or error.code == code, f"{error.code}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_chat(gateway):
    client = gateway.client()
    answer = client.chat.completions.create(model="chat", messages=HELLO, max_tokens=8)
    assert answer.choices[0].message.content.startswith("This is simulated text"), answer
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    assert answer._request_id


def test_completion(gateway):
    answer = gateway.client().completions.create(model="chat", prompt="Once upon", max_tokens=8)
    assert answer.choices[0].text.startswith("This is simulated text"), answer


def test_stream(gateway):
    client = gateway.client()
    whole = client.chat.completions.create(model="chat", messages=HELLO, max_tokens=20)
    chunks = list(client.chat.completions.create(model="chat", messages=HELLO, max_tokens=20, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content, text
    assert all(chunk.usage is None and chunk.choices for chunk in chunks), "no usage chunk that nobody asked for"
    assert chunks[-1].choices[0].finish_reason == "length"


def test_stream_with_usage(gateway):
    client = gateway.client()
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model="chat", messages=HELLO, max_tokens=20, stream=True, stream_options=options
    )
    *chunks, last = list(stream)
    assert last.choices == [] and last.usage.completion_tokens == 20, last
    assert all(chunk.usage is None for chunk in chunks)


def test_tokens_come_as_they_are_made(gateway):
    # Who waits for the last one gives up before the first.
    client = gateway.client()
    with client.chat.completions.create(model="paced", messages=HELLO, max_tokens=LONG, stream=True) as stream:
        some = [chunk for _, chunk in zip(range(20), stream)]
    assert len(some) == 20 and all(chunk.choices[0].finish_reason is None for chunk in some)


def test_async_stream(gateway):
    async def ask():
        client = gateway.client(openai.AsyncOpenAI)
        stream = await client.chat.completions.create(model="chat", messages=HELLO, max_tokens=8, stream=True)
        return [chunk async for chunk in stream]

    assert len(asyncio.run(ask())) >= 8


def test_embeddings(gateway):
    # The library asks for base64 and turns it into numbers itself.
    answer = gateway.client().embeddings.create(model="embed", input=["one two", "three"])
    assert [len(it.embedding) for it in answer.data] == [64, 64], answer
    assert abs(sum(x * x for x in answer.data[0].embedding) - 1) < 1e-3
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0
    floats = gateway.client().embeddings.create(model="embed", input="one two", encoding_format="float")
    close = zip(floats.data[0].embedding, answer.data[0].embedding, strict=True)
    assert all(abs(a - b) < 1e-5 for a, b in close)


def test_models(gateway):
    client = gateway.client()
    assert {it.id for it in client.models.list()} == {name for name, _, _ in ENGINES}
    assert client.models.retrieve("chat").owned_by == "gantry"
    assert [it.id for it in gateway.client(models=["embed"]).models.list()] == ["embed"]
    raises(openai.NotFoundError, 404, "model_not_found", client.models.retrieve, model="nobody")


def test_a_wrong_key_is_an_authentication_error(gateway):
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="gty_wrong", max_retries=0)
    chat = client.chat.completions.create
    raises(openai.AuthenticationError, 401, "invalid_api_key", chat, model="chat", messages=HELLO)


def test_a_key_without_the_scope_is_a_permission_error(gateway):
    chat = gateway.client(scopes="embeddings").chat.completions.create
    raises(openai.PermissionDeniedError, 403, "insufficient_scope", chat, model="chat", messages=HELLO)


def test_an_unknown_model_is_not_found(gateway):
    chat = gateway.client().chat.completions.create
    error = raises(openai.NotFoundError, 404, "model_not_found", chat, model="nobody", messages=HELLO)
    assert error.param == "model" and error.request_id, error


def test_a_large_body_is_a_status_error(gateway):
    chat = gateway.client().chat.completions.create
    large = [{"role": "user", "content": "x" * (MAX_BODY + 1)}]
    raises(openai.APIStatusError, 413, "request_too_large", chat, model="chat", messages=large)


def test_a_bad_request_is_one_whoever_finds_it(gateway):
    chat = gateway.client().chat.completions.create
    raises(openai.BadRequestError, 400, "task_mismatch", chat, model="embed", messages=HELLO)
    raises(openai.BadRequestError, 400, None, chat, model="chat", messages="no list")
    raises(openai.UnprocessableEntityError, 422, None, chat, model="unprocessable", messages=HELLO)


def test_a_limit_is_a_rate_limit_error(gateway):
    chat = gateway.client(rpm_limit=1).chat.completions.create
    chat(model="chat", messages=HELLO, max_tokens=1)
    error = raises(openai.RateLimitError, 429, "rate_limit_exceeded", chat, model="chat", messages=HELLO)
    assert int(error.response.headers["retry-after"]) >= 1
    assert int(error.response.headers["retry-after-ms"]) >= 1


def test_what_is_left_of_limits_is_told(gateway):
    chat = gateway.client(rpm_limit=5, tpm_limit=10_000).chat.completions
    whole = chat.with_raw_response.create(model="chat", messages=HELLO, max_tokens=4)
    streamed = chat.with_raw_response.create(model="chat", messages=HELLO, max_tokens=4, stream=True)
    for n, answer in enumerate([whole, streamed], start=1):
        told = {name: answer.headers[f"x-ratelimit-{name}-requests"] for name in ["limit", "remaining", "reset"]}
        assert (told["limit"], told["remaining"]) == ("5", str(5 - n)), told
        assert re.fullmatch(r"\d+(\.\d+)?s", told["reset"]), told
        assert 9_000 < int(answer.headers["x-ratelimit-remaining-tokens"]) < 10_000
    assert whole.parse().usage.completion_tokens == 4


def test_a_budget_that_is_used_up_is_a_rate_limit_error(gateway):
    chat = gateway.client(budget_tokens_day=1).chat.completions.create
    chat(model="chat", messages=HELLO, max_tokens=4)
    error = raises(openai.RateLimitError, 429, "budget_exceeded", chat, model="chat", messages=HELLO)
    assert error.response.headers["x-should-retry"] == "false"


def test_an_error_of_the_engine_is_a_server_error(gateway):
    chat = gateway.client().chat.completions.create
    raises(openai.InternalServerError, 500, None, chat, model="failing", messages=HELLO)


def test_an_error_in_mid_stream_is_raised(gateway):
    stream = gateway.client().chat.completions.create(model="breaks", messages=HELLO, stream=True)
    error = raises(openai.APIError, None, None, lambda: list(stream))
    assert not isinstance(error, openai.APIStatusError), error


def test_an_engine_that_dies_is_an_error_now_and_afterwards(gateway):
    chat = gateway.client().chat.completions.create
    stream = iter(chat(model="paced", messages=HELLO, max_tokens=LONG, stream=True))
    text = "".join(next(stream).choices[0].delta.content or "" for _ in range(6))
    assert text.startswith("This is simulated"), text
    gateway.kill_engine("paced")
    error = raises(openai.APIError, None, "model_unavailable", lambda: list(stream))
    assert error.type == "server_error", error
    # 502 until the gateway has noticed, 503 from then on.
    error = raises(openai.InternalServerError, None, None, chat, model="paced", messages=HELLO)
    assert (error.status_code, error.code) in [(502, "model_unavailable"), (503, "model_not_running")], error
    assert chat(model="chat", messages=HELLO).choices, "the others go on"


def main():
    end_with_us()
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    failed = 0
    with contextlib.ExitStack() as stack:
        gateway = Gateway(stack)
        print(f"openai {openai.__version__}, engines in {'containers' if gateway.docker else 'processes'}")
        for name, test in tests:
            try:
                test(gateway)
                print(f"PASS {name}")
            except Exception as error:  # whatever it is, the other tests run
                failed += 1
                print(f"FAIL {name}: {type(error).__name__}: {error}")
        if failed:
            with open(f"{gateway.dir}/log") as log:
                print("--- log of the gateway ---", *log.readlines()[-80:], sep="\n")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
