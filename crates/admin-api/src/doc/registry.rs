//! `/admin/models/registry`.

use gantry_domain::{ErrorCode, net::MAX_ENGINE_URLS};
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        deleted, described, flag, formatted, list, name, named, nullable, object, one_of, request, secret,
        text, text_of, word,
    },
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let name_there =
        described(nullable(text()), "What the model is called there, if not by the served name.");
    vec![(
        "RegistryEntry",
        object([
            ("served_name", text()),
            ("url", described(text(), "The first of `urls`.")),
            ("urls", list(text())),
            ("upstream_model", name_there),
            ("task", named("Task")),
            ("engine_type", nullable(named("Engine"))),
            ("source", one_of(&["managed", "manual"])),
            ("healthy", described(flag(), "At least one address is.")),
            ("breaker", one_of(&["closed", "half_open", "open"])),
        ]),
    )]
}

/// Returns the fields of an entry, except its name.
fn fields() -> Vec<(&'static str, Value)> {
    let url = || described(formatted("engine-url"), "`http[s]://host[:port][/base]`, without user or query.");
    let mut urls = list(url());
    urls["minItems"] = json!(1);
    urls["maxItems"] = json!(MAX_ENGINE_URLS);
    urls["uniqueItems"] = json!(true);
    let urls =
        described(urls, "Instead of `url`: several addresses of the same. Each request goes to one of them.");
    let name_there = described(
        nullable(name(200)),
        "What the model is called there. Requests name it so; answers pass as they are.",
    );
    vec![
        ("url", url()),
        ("urls", urls),
        ("task", nullable(named("Task"))),
        ("upstream_model", name_there),
        ("api_key", nullable(secret(word("^[!-~]{1,500}$")))),
    ]
}

pub(crate) fn list_entries() -> Doc {
    Doc::new("listRegistry", "The routing table")
        .about("Which served name goes where: managed models that run, and engines that an owner added.")
        .paged()
        .list(named("RegistryEntry"))
}

pub(crate) fn add() -> Doc {
    let fields = [("served_name", name(200))].into_iter().chain(fields());
    Doc::new("addRegistryEntry", "Add an engine that runs elsewhere, or replace it")
        .about(
            "Needs `url` or `urls`. An entry of this name is replaced. The gateway's internal key is never sent there; it \
             may have an `api_key` of its own. That of an entry which is replaced stays if none is sent (not even `null`) \
             and no address is new. Answers when the engine was probed.",
        )
        .body(request(&["served_name"], fields))
        .created(named("RegistryEntry"))
        .answer(200, "It was changed.", named("RegistryEntry"))
        .errors(&[ErrorCode::ServedNameConflict])
}

pub(crate) fn change() -> Doc {
    Doc::new("changeRegistryEntry", "Change an engine that runs elsewhere")
        .about(
            "What is not sent stays. The name may contain slashes. A new address needs `api_key` too (or `null`) if there \
             is one: a key goes to no other address than those that it was given for. Answers when the engine was probed.",
        )
        .body(request(&[], fields()))
        .ok(named("RegistryEntry"))
}

pub(crate) fn remove() -> Doc {
    Doc::new("removeRegistryEntryByQuery", "Remove an engine that runs elsewhere")
        .about("The same as the one with the name in the path, for names that proxies would change there.")
        .needs("served_name", text_of(1, 200), "Which.")
        .ok(deleted(text()))
        .errors(&[ErrorCode::NotFound])
}

pub(crate) fn remove_named() -> Doc {
    Doc::new("removeRegistryEntry", "Remove an engine that runs elsewhere")
        .about("The name may contain slashes.")
        .ok(deleted(text()))
}
