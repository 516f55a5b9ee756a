"""What Schemathesis must know of Gantry: texts with a format of ours, and whom it must not delete."""

import os

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

from gateway import SERVED

# The people who run the tests with their organisations, and the models that run: they must still be there at the end.
LAST_PERSON = int(os.environ["SCHEMA_LAST_PERSON"])
LAST_MODEL = int(os.environ["SCHEMA_LAST_MODEL"])
NOBODY = 999_999_999
WORD = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
# The folder that is there, or none.
FOLDER = st.one_of(st.just("m"), WORD)
IPV4 = st.ip_addresses(v=4).map(str)

FORMATS = {
    "ip-range": st.one_of(IPV4, st.ip_addresses(v=6).map(str), IPV4.map(lambda it: f"{it}/32")),
    "ip-ranges": st.lists(IPV4, min_size=1, max_size=3).map(",".join),
    "engine-url": WORD.map(lambda it: f"http://{it}:8000"),
    "hub-repository": st.tuples(WORD, WORD).map("/".join),
    "relative-path": FOLDER,
    "model-path": FOLDER,
    "repository-or-path": st.tuples(WORD, WORD).map("/".join) | FOLDER.map("/models/{}".format),
    "named-path": st.tuples(WORD, WORD).map("=".join),
    "name": st.text(st.characters(categories=("L", "N")), min_size=1, max_size=20),
    "absolute-path": WORD.map(lambda it: f"/nowhere/{it}"),
    "password": st.text(st.characters(codec="utf-8", min_codepoint=33, max_codepoint=126), min_size=8, max_size=20),
    # Keys expire in the future.
    "date-time": st.integers(2030, 9000).map(lambda year: f"{year}-02-28T23:59:59Z"),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Sends what would change or delete one of the protected to nobody, and what fits its schema to models that run."""
    path, given = case.operation.path, str((case.path_parameters or {}).get("id", ""))
    if given.isdigit():
        person = path in PERSONS and int(given) <= LAST_PERSON
        model = path in MODELS and case.method != "GET" and int(given) <= LAST_MODEL
        if person or model:
            case.path_parameters = {**case.path_parameters, "id": NOBODY}
    # A log that is followed from a time in the future on, as all times here are, is silent until the client gives up.
    if path == "/admin/models/{id}/logs" and (case.query or {}).get("follow") in ("true", "1"):
        case.query = {name: value for name, value in case.query.items() if name != "since"}
    # What does not fit goes to no engine: what else than `model` and `stream` is refused there is the engine's to say.
    task, negative = ENGINE_PATHS.get(path), case.meta and case.meta.generation.mode == GenerationMode.NEGATIVE
    if task and not negative and isinstance(case.body, dict) and "model" in case.body:
        # Other cases are made from the same object.
        case.body = {**case.body, "model": SERVED[task]}


PERSONS = ("/admin/users/{id}", "/admin/orgs/{id}")
MODELS = ("/admin/models/{id}", *(f"/admin/models/{{id}}/{it}" for it in ("start", "stop", "apply")))
ENGINE_PATHS = {
    path: "generate"
    for path in (
        "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
        "/tokenize", "/detokenize",
    )
} | {"/v1/embeddings": "embed"}  # fmt: skip


@schemathesis.hook
def filter_query(context, query):
    """An empty parameter counts as absent (`allowEmptyValue`), so that it is no negative example."""
    return not any(value in ("", None, [], [""]) for value in (query or {}).values())
