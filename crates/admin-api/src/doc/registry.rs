//! `/admin/models/registry`.

use gantry_domain::ErrorCode;
use serde_json::Value;

use super::{
    Doc,
    schema::{
        deleted, described, flag, formatted, name, named, nullable, object, one_of, request, secret, text,
        text_of, word,
    },
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![(
        "RegistryEntry",
        object([
            ("served_name", text()),
            ("url", text()),
            ("task", named("Task")),
            ("engine_type", nullable(named("Engine"))),
            ("source", one_of(&["managed", "manual"])),
            ("healthy", flag()),
            ("breaker", one_of(&["closed", "half_open", "open"])),
        ]),
    )]
}

pub(crate) fn list_entries() -> Doc {
    Doc::new("listRegistry", "The routing table")
        .about("Which served name goes where: managed models that run, and engines that an owner added.")
        .paged()
        .list(named("RegistryEntry"))
}

pub(crate) fn add() -> Doc {
    let url = described(formatted("engine-url"), "`http://host[:port]`, without user, path or query.");
    Doc::new("addRegistryEntry", "Add an engine that runs elsewhere, or change it")
        .about(
            "An entry of this name is replaced. The gateway's internal key is never sent there; it may have an \
             `api_key` of its own. That of an entry which is replaced stays if none is sent (not even `null`) and the \
             address is the same. Answers when the engine was probed.",
        )
        .body(request(
            &["served_name", "url"],
            [
                ("served_name", name(200)),
                ("url", url),
                ("task", nullable(named("Task"))),
                ("api_key", nullable(secret(word("^[!-~]{1,500}$")))),
            ],
        ))
        .created(named("RegistryEntry"))
        .answer(200, "It was changed.", named("RegistryEntry"))
        .errors(&[ErrorCode::ServedNameConflict])
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
