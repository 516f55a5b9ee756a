"""Runs the snippets of docs/clients.md that a comment marks as tested, against a gateway with simulated engines.

GANTRY names the program. A snippet passes when it ends with 0 and prints something. The last line is `N passed, N failed`.
"""

import contextlib
import http.cookiejar
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import PATIENCE, end, end_with_us, first_match  # noqa: E402

PAGE = HERE / "../../docs/clients.md"
GANTRY = os.environ["GANTRY"]
OWNER = {"username": "owner", "password": "owner-password"}
# Served name, task, and what the simulator is started with.
ENGINES = [
    ("qwen", "generate", ["--flavour", "vllm"]),
    ("bge", "embed", ["--flavour", "vllm", "--runner", "pooling"]),
    ("reranker", "embed", ["--flavour", "vllm", "--runner", "pooling"]),
]
# Longest time of a snippet, in seconds. It imports large libraries and sends several requests.
LONGEST = 300
SNIPPET = re.compile(r"<!-- test: (\S+) -->\n```(\w+)\n(.*?)```", re.S)
COMMANDS = {"python": ([sys.executable], "py"), "js": (["node"], "mjs"), "sh": (["bash", "-eu"], "sh")}


def announced(stack, command, pattern, stream, **options):
    """Starts a program that ends with the stack, and gives the first group of `pattern` in what it prints."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, **{stream: subprocess.PIPE}, **options)
    stack.callback(end, process)
    return first_match(pattern, getattr(process, stream))


class Gateway:
    def __init__(self, stack):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        env = {
            "PATH": os.environ["PATH"], "HOME": folder, "DATA_DIR": f"{folder}/data", "GANTRY_SETTINGS_FILE": "",
            "GATEWAY_LISTEN": "127.0.0.1:0", "METRICS_LISTEN": "127.0.0.1:0", "CONTAINER_RUNTIME": "process",
            "ADMIN_BOOTSTRAP_USERNAME": OWNER["username"], "ADMIN_BOOTSTRAP_PASSWORD": OWNER["password"],
        }  # fmt: skip
        ready = r"UI and API +(http://\S+?)/"
        self.url = announced(stack, [GANTRY, "serve"], ready, "stdout", env=env, stderr=subprocess.DEVNULL)
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
        self.post("/auth/login", OWNER)
        for name, task, options in ENGINES:
            command = [GANTRY, "engine-sim", *options, "--model", "sim:m", "--served-model-name", name]
            command += ["--host", "127.0.0.1", "--port", "0"]
            engine = announced(stack, command, r"server on (http://\S+)", "stderr", stdout=subprocess.DEVNULL)
            self.post("/admin/models/registry", {"served_name": name, "task": task, "url": engine})
        self.key = self.post("/admin/keys", {"name": "snippets"})["token"]

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        with self.opener.open(request, timeout=PATIENCE) as answer:
            return json.load(answer)


def run(gateway, language, text):
    """Runs a snippet as somebody does who copied it; gives what is wrong with it, or nothing."""
    command, suffix = COMMANDS[language]
    with tempfile.TemporaryDirectory() as folder:
        # Where Node looks for packages.
        os.symlink(HERE / "node_modules", f"{folder}/node_modules")
        file = pathlib.Path(folder) / f"snippet.{suffix}"
        file.write_text(text.replace("https://ai.example.org", gateway.url))
        home = pathlib.Path(folder) / "home"
        home.mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "GANTRY_API_KEY": gateway.key, "NO_PROXY": "*",
               "LLM_USER_PATH": str(home), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # fmt: skip
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": LONGEST}
        try:
            done = subprocess.run([*command, file], env=env, cwd=folder, **options)
        except subprocess.TimeoutExpired as late:
            return f"it took longer than {LONGEST} s: {(late.stdout or b'')[-2000:].decode(errors='replace')}"
        if done.returncode:
            return f"it ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
        return None if done.stdout.strip() else f"it printed nothing: {done.stderr[-2000:]}"


def main():
    end_with_us()
    snippets = SNIPPET.findall(PAGE.read_text())
    assert len(snippets) >= 13, "the page has marked snippets"
    failed = 0
    with contextlib.ExitStack() as stack:
        gateway = Gateway(stack)
        for name, language, text in snippets:
            problem = run(gateway, language, text)
            failed += problem is not None
            print(f"FAIL {name}: {problem}" if problem else f"PASS {name}", flush=True)
    print(f"{len(snippets) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
