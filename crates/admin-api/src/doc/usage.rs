//! `/admin/usage`.

use serde_json::Value;

use super::{
    Doc,
    schema::{
        count, defaulted, flag, formatted, id, named, nullable, object, one_of, text, time, whole, word,
    },
};

const OUTCOMES: &[&str] = &["ok", "client_error", "upstream_error", "client_closed", "timeout", "rejected"];

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Task", one_of(&["generate", "embed"])),
        (
            "UsageRow",
            object([
                ("id", formatted("uuid")),
                ("req_id", text()),
                ("created_at", time()),
                ("key_id", nullable(id())),
                ("key_prefix", nullable(text())),
                ("user_id", nullable(id())),
                ("org_id", nullable(id())),
                ("model_name", text()),
                ("task", named("Task")),
                ("endpoint", text()),
                ("stream", flag()),
                ("prompt_tokens", count()),
                ("completion_tokens", count()),
                ("total_tokens", count()),
                ("cached_tokens", nullable(count())),
                ("estimated", flag()),
                ("latency_ms", count()),
                ("ttft_ms", nullable(count())),
                ("status_code", whole(100, 599)),
                ("outcome", one_of(OUTCOMES)),
            ]),
        ),
    ]
}

/// The parameters that all usage endpoints share.
fn filtered(doc: Doc) -> Doc {
    doc.query("hours", defaulted(whole(1, 8784), 24), "How far back, if there is no `from`.")
        .query("from", time(), "The first moment.")
        .query("to", time(), "The moment after the last; without it, now.")
        .query("model", text(), "Only requests with this model name.")
        .query("task", named("Task"), "Only requests of this task.")
        .query("key_id", id(), "Only requests with this key.")
        .query("user_id", id(), "Only requests of this user.")
        .query("org_id", id(), "Only requests of this organisation.")
        .query(
            "status",
            word("^([1-5][0-9][0-9]|[1-5]xx)$"),
            "A status such as `404`, or a class such as `4xx`.",
        )
        .query("outcome", one_of(OUTCOMES), "Only requests that ended so.")
}

pub(crate) fn list() -> Doc {
    filtered(Doc::new("listUsage", "Recent requests").about("Newest first.").paged()).list(named("UsageRow"))
}
