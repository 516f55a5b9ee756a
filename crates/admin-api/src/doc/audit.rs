//! `/admin/audit` and `/admin/events`.

use gantry_domain::{
    ErrorCode,
    audit::{Action, ActorType, ObjectType},
};
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        count, event, flag, id, id_of, json_text, list as array, named, nullable, object, one_of, text, time,
        whole, word,
    },
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let model = object([
        ("id", id()),
        ("served_name", text()),
        ("state", named("ModelState")),
        ("state_reason", nullable(text())),
        ("needs_apply", flag()),
        ("archived", flag()),
        ("diagnosis", nullable(text())),
    ]);
    let pull = || nullable(object([("done", count()), ("known", count())]));
    let mut now = model.clone();
    now["properties"]["pull"] = pull();
    if let Some(required) = now["required"].as_array_mut() {
        required.push("pull".into());
    }
    let job = object([
        ("job", one_of(&["image_load"])),
        ("path", text()),
        ("state", one_of(&["running", "done", "failed"])),
        ("done_bytes", count()),
        ("total_bytes", count()),
    ]);
    let kinds = [
        ("snapshot", array(now.clone())),
        ("reset", array(now)),
        ("model", model),
        ("model_deleted", object([("id", id())])),
        ("pull", object([("id", id()), ("pull", pull())])),
        ("log", object([("id", id()), ("line", text())])),
        ("log_end", object([("id", id())])),
        ("job", job),
        ("lag", object([("missed", count())])),
    ];
    let mut any = event(text());
    any["properties"]["event"] = one_of(&kinds.each_ref().map(|it| it.0));
    // The data that goes with each.
    any["allOf"] = kinds
        .into_iter()
        .map(|(kind, data)| {
            json!({
                "if": { "properties": { "event": { "const": kind } } },
                "then": { "properties": { "data": json_text(data) } },
            })
        })
        .collect();
    vec![("Event", any)]
}

pub(crate) fn list() -> Doc {
    let hash = || word("^[0-9a-f]{64}$");
    let side = || json!({ "type": ["object", "null"] });
    Doc::new("listAuditLog", "The audit log")
        .about(
            "Who did what to which object, from where: newest first, with the fields that changed as they were and as \
             they are. `hash` covers the row and the hash of the row before (`prev_hash`); `gantry audit verify` checks \
             the chain.",
        )
        .paged()
        .query("from", time(), "The first moment.")
        .query("to", time(), "The moment after the last.")
        .query("actor", text(), "Only what this user did: an id, or a name as it was then, in any case.")
        .query("action", one_of(&Action::WORDS), "Only this kind of action.")
        .query("object_type", one_of(&ObjectType::WORDS), "Only actions on this kind of object.")
        .query("object_id", text(), "Only actions on the object with this id.")
        .list(object([
            ("seq", whole(1, i64::MAX)),
            ("at", time()),
            ("actor_type", one_of(&ActorType::WORDS)),
            ("actor_id", nullable(id())),
            ("actor", nullable(text())),
            // Rows of an older version may have words that this one does not know.
            ("action", text()),
            ("object_type", one_of(&ObjectType::WORDS)),
            ("object_id", text()),
            ("before", side()),
            ("after", side()),
            ("ip", nullable(text())),
            ("request_id", nullable(text())),
            ("user_agent", nullable(text())),
            ("prev_hash", hash()),
            ("hash", hash()),
        ]))
}

pub(crate) fn events() -> Doc {
    Doc::new("streamEvents", "Events for pages")
        .about(
            "A stream of server-sent events. It begins with `snapshot`, all models; then come `model`, `model_deleted` \
             and `pull` as things change, and `job` for what somebody waits for (`image_load`). With `logs` also `log` for each line of that model's engine, and `log_end`. \
             Who comes back with `Last-Event-ID` gets what he missed, or `reset` with all models if that is not known \
             any more. Ends with the session, and with `lag` if the reader is too slow.",
        )
        .query("logs", id_of("models"), "The model whose log is sent as well.")
        .header("Last-Event-ID", text(), "The id of the last event that was seen.")
        .other("text/event-stream", "One event after the other.", named("Event"))
        .errors(&[
            ErrorCode::NotFound,
            ErrorCode::InvalidState,
            ErrorCode::TooManyStreams,
            ErrorCode::RuntimeUnavailable,
            ErrorCode::StreamsExhausted,
        ])
}
