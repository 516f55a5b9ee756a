"""What was deleted is gone: every operation of the served OpenAPI document that takes an id is asked about an object that
is there, and again when it was deleted, on SQLite and (TEST_POSTGRES_URL) Postgres. Schemathesis follows links by
chance, and hardly ever one from a deletion.

GANTRY names the program. The last line is `N passed, N failed`; one test is one kind of object on one database.
"""

import contextlib
import json
import sys
import urllib.error
import urllib.request

from gateway import Gateway
from test_openapi import databases

# Found by way of `gateway`.
from common import PATIENCE, end_with_us  # noqa: E402, I001

# Path of a kind of object, the path of one of them, who makes it, and what from (`{n}` makes names unique).
KINDS = [
    ("/admin/orgs", "/admin/orgs/{id}", "owner", {"name": "gone {n}"}),
    ("/admin/users", "/admin/users/{id}", "owner", {"username": "gone{n}", "password": "correct-horse", "role": "user"}),
    ("/admin/keys", "/admin/keys/{id}", "owner", {"name": "gone {n}"}),
    ("/auth/keys", "/auth/keys/{id}", "user", {"name": "gone {n}"}),
    ("/auth/tokens", "/auth/tokens/{id}", "user", {"name": "gone {n}", "scopes": "account:read"}),
    ("/auth/tokens", "/admin/tokens/{id}", "owner", {"name": "gone too {n}", "scopes": "account:read"}),
    ("/admin/models", "/admin/models/{id}", "owner", {"served_name": "gone{n}", "engine_type": "vllm", "repo_id": "gone/model"}),
    ("/admin/models/registry", "/admin/models/registry/{served_name}", "owner",
     {"served_name": "far{n}", "url": "http://127.0.0.1:9"}),
    ("/v1/chat/sessions", "/v1/chat/sessions/{id}", "user", {"model_name": "here", "engine_type": "vllm"}),
]  # fmt: skip
# A key that was revoked opens nothing any more; its record stays for those who look at what it did. What may still be
# asked for changes nothing.
REVOKED = {("/admin/keys/{id}", "PATCH"): 409, ("/admin/keys/{id}", "DELETE"): 200, ("/auth/keys/{id}", "DELETE"): 200}
# To delete a job is to cancel it: its record stays, and says so. The tests of deployment jobs cover that.
CANCELLED = {"/admin/deployment/jobs/{id}"}
# A session is made by a sign-in. The tests of sessions cover its end.
SIGNED_IN = {"/auth/sessions/{id}"}
# About something that is only sometimes there although the object is: the answer that a chat gets.
SOMETIMES = {"/v1/chat/sessions/{id}/completions", "/v1/chat/sessions/{id}/completions/current"}
# What operations with a body are asked for.
BODIES = {
    "changeOrganisation": {"name": "other {n}"},
    "changeUser": {"username": "other{n}"},
    "createPasswordLink": {},
    "changeKey": {"name": "other {n}"},
    "changeModel": {"served_name": "other{n}"},
    "previewSavedModel": {"served_name": "previewed{n}"},
    "changeRegistryEntry": {"task": "embed"},
    "changeChat": {"title": "other {n}"},
    "addChatMessage": {"role": "user", "content": "Hello"},
}


def ask(gateway, method, path, role, body, key=None):
    """The status and the answer; with this key, or as who is signed in."""
    request = urllib.request.Request(gateway.url + path, method=method)
    if key:
        request.add_header("authorization", f"Bearer {key}")
    else:
        request.add_header("cookie", f"svc_session={gateway.cookies[role]}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("content-type", "application/json")
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def fill(body, n):
    return {name: value.replace("{n}", str(n)) for name, value in body.items()} if body else None


def operations(document, item):
    """Those on one object, the deletion last: method, path and body."""
    found = []
    for path, methods in document["paths"].items():
        if (path == item or path.startswith(item + "/")) and path not in SOMETIMES:
            for method, operation in methods.items():
                name = operation["operationId"]
                if "requestBody" in operation and name not in BODIES:
                    raise RuntimeError(f"no body for {name}: add one to BODIES")
                found.append((method.upper(), path, BODIES.get(name)))
    return sorted(found, key=lambda it: it[0] == "DELETE")


def check(gateway, kind, n):
    """What is wrong."""
    collection, item, role, body = kind
    parameter = item[item.rindex("{") :].strip("{}")
    wrong = []
    status, made = ask(gateway, "POST", collection, role, fill(body, n))
    if status not in (200, 201):
        return [f"POST {collection}: {status} {made}"]
    id = str(made[parameter])
    all_of_them = operations(gateway.document, item)
    assert [it[0] for it in all_of_them].count("DELETE") == 1, all_of_them

    def about(method, path, body):
        where = path.replace("{" + parameter + "}", id)
        status, answer = ask(gateway, method, where, role, fill(body, n))
        return f"{method} {where}: {status} {str(answer)[:300]}", status

    def key_works(wanted):
        status, _ = ask(gateway, "GET", "/v1/models", role, None, made["token"])
        if status != wanted:
            wrong.append(f"GET /v1/models with the key: {status} instead of {wanted}")

    kept = any(path == item for path, _ in REVOKED)
    if kept:
        key_works(200)
    for operation in all_of_them:
        said, status = about(*operation)
        if status == 404 or status >= 500 and status != 503:
            wrong.append(f"while it is there: {said}")
    for operation in all_of_them:
        said, status = about(*operation)
        if status != REVOKED.get((operation[1], operation[0]), 404):
            wrong.append(f"after its deletion: {said}")
    if "get" in gateway.document["paths"][collection]:
        status, listed = ask(gateway, "GET", collection, role, None)
        there = [it.get("status") for it in listed if str(it[parameter]) == id]
        if status != 200 or there != (["revoked"] if kept else []):
            wrong.append(f"after its deletion GET {collection}: {status} {there}")
    if kept:
        key_works(401)
    return wrong


def kinds_without_a_row(document):
    """Objects that can be deleted, and that nothing above speaks of."""
    known = {item for _, item, _, _ in KINDS} | CANCELLED | SIGNED_IN | SOMETIMES
    return [path for path, it in document["paths"].items() if "delete" in it and "{" in path and path not in known]


def main():
    end_with_us()
    passed = failed = 0
    for database in databases():
        with contextlib.ExitStack() as stack:
            gateway = Gateway(stack, database)
            for path in kinds_without_a_row(gateway.document):
                print(f"FAIL {path}: it can be deleted, and has no row in KINDS")
                failed += 1
            for n, kind in enumerate(KINDS):
                wrong = check(gateway, kind, n)
                print(f"{'FAIL' if wrong else 'PASS'} {kind[1]} on {database}", *wrong, sep="\n    ")
                passed, failed = passed + (not wrong), failed + bool(wrong)
            for fault in gateway.faults():
                print(fault)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
