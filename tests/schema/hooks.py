"""What Schemathesis must know of Gantry: texts with a format of ours, and whom it must not delete."""

import os

import schemathesis
from hypothesis import strategies as st

# The people who run the tests, and their organisations: they must still be there at the end.
PROTECTED = int(os.environ.get("SCHEMA_PROTECTED_IDS", "0"))
WORD = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
IPV4 = st.ip_addresses(v=4).map(str)

FORMATS = {
    "ip-range": st.one_of(IPV4, st.ip_addresses(v=6).map(str), IPV4.map(lambda it: f"{it}/32")),
    "ip-ranges": st.lists(IPV4, min_size=1, max_size=3).map(",".join),
    "engine-url": WORD.map(lambda it: f"http://{it}:8000"),
    "hub-repository": st.tuples(WORD, WORD).map("/".join),
    "relative-path": WORD,
    "model-path": WORD,
    "named-path": st.tuples(WORD, WORD).map("=".join),
    "absolute-path": WORD.map(lambda it: f"/nowhere/{it}"),
    "password": st.text(st.characters(codec="utf-8", min_codepoint=33, max_codepoint=126), min_size=8, max_size=20),
    # Keys expire in the future.
    "date-time": st.integers(2030, 9000).map(lambda year: f"{year}-02-28T23:59:59Z"),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Sends what would change or delete one of the protected to nobody."""
    path = case.operation.path
    if path in ("/admin/users/{id}", "/admin/orgs/{id}"):
        given = str(case.path_parameters.get("id", ""))
        if given.isdigit() and int(given) <= PROTECTED:
            case.path_parameters["id"] = 999_999_999


@schemathesis.hook
def filter_query(context, query):
    """An empty parameter counts as absent (`allowEmptyValue`), so that it is no negative example."""
    return not any(value in ("", None, [], [""]) for value in (query or {}).values())
