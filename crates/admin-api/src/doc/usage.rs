//! `/admin/usage`.

use gantry_domain::{ErrorCode, model::Task, usage::Outcome};
use gantry_store::{Bucket, GroupBy, GroupColumn};
use serde_json::Value;

use super::{
    Doc,
    schema::{
        count, defaulted, flag, formatted, id, id_of, list as array, named, nullable, number, object,
        object_but, one_of, query_flag, text, time, whole, word,
    },
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Task", one_of(&Task::WORDS)),
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
                ("outcome", one_of(&Outcome::WORDS)),
                ("requests", count()),
            ]),
        ),
    ]
}

/// Adds the parameters that all endpoints for administrators share.
fn filtered(doc: Doc) -> Doc {
    filtered_own(doc).query("user_id", id_of("users"), "Only requests of this user.").query(
        "org_id",
        id_of("orgs"),
        "Only requests of this organisation.",
    )
}

/// Adds the parameters of one's own usage.
fn filtered_own(doc: Doc) -> Doc {
    doc.query("hours", defaulted(whole(1, 8784), 24), "How far back, if there is no `from`.")
        .query("from", time(), "The first moment.")
        .query("to", time(), "The moment after the last; without it, now.")
        .query("model", text(), "Only requests with this model name.")
        .query(
            "no_model",
            query_flag(),
            "Only requests without a model name: refused before it was read, or, when their rows have gone for their age, \
             for models that there never were. Not together with `model`.",
        )
        .query("task", named("Task"), "Only requests of this task.")
        .query("key_id", id_of("keys"), "Only requests with this key.")
        .query(
            "status",
            word("^([1-5][0-9][0-9]|[1-5]xx)$"),
            "A status such as `404`, or a class such as `4xx`.",
        )
        .query("outcome", one_of(&Outcome::WORDS), "Only requests that ended so.")
        // These reads run one after the other for each caller.
        .errors(&[ErrorCode::TooManyAttempts])
}

pub(crate) fn list() -> Doc {
    filtered(Doc::new("listUsage", "Recent requests").about("Newest first.").paged()).list(named("UsageRow"))
}

pub(crate) fn list_own() -> Doc {
    let about = "By one's own keys and sessions; newest first.";
    filtered_own(Doc::new("listOwnUsage", "Own recent requests").about(about).paged()).list(named("UsageRow"))
}

/// Sums of requests.
fn sums() -> Vec<(&'static str, Value)> {
    ["requests", "errors", "prompt_tokens", "completion_tokens"].map(|it| (it, count())).to_vec()
}

pub(crate) fn aggregate() -> Doc {
    let about = "Errors are requests with a status of 400 or more, whoever is to blame. `deleted`: nothing that you \
                 may see has this id any more. Requests without a model name are the group `no model`, whose `model_name` \
                 is empty.";
    groups(filtered(Doc::new("aggregateUsage", "Totals by group").about(about)))
}

pub(crate) fn aggregate_own() -> Doc {
    let about = "As `GET /admin/usage/aggregate`, of one's own requests.";
    groups(filtered_own(Doc::new("aggregateOwnUsage", "Own totals by group").about(about)))
}

fn groups(doc: Doc) -> Doc {
    let group = [
        ("group", text()),
        ("group_id", nullable(id())),
        ("deleted", flag()),
        ("model_name", text()),
        ("key_prefix", text()),
        ("total_tokens", count()),
        ("cached_tokens", count()),
        ("p50_ms", count()),
        ("p95_ms", count()),
    ];
    let by = defaulted(one_of(&GroupBy::WORDS), "model");
    doc.paged()
        .query("group_by", by, "What makes a group.")
        .sorted(&GroupColumn::WORDS, "-requests")
        .list(object_but(&["model_name", "key_prefix"], group.into_iter().chain(sums())))
}

pub(crate) fn series() -> Doc {
    steps(filtered(Doc::new("getUsageSeries", "Totals over time").about(
        "Steps without requests are there too; at most 48 hours of minutes, and 10000 steps of others.",
    )))
}

pub(crate) fn series_own() -> Doc {
    let about = "As `GET /admin/usage/series`, of one's own requests.";
    steps(filtered_own(Doc::new("getOwnUsageSeries", "Own totals over time").about(about)))
}

fn steps(doc: Doc) -> Doc {
    let step = [("ts", time()), ("total_tokens", count())];
    doc.query("bucket", defaulted(one_of(&Bucket::WORDS), "hour"), "Length of a step.")
        .ok(array(object(step.into_iter().chain(sums()))))
}

fn durations() -> Value {
    object([
        ("p50_ms", nullable(count())),
        ("p95_ms", nullable(count())),
        ("p99_ms", nullable(count())),
        ("avg_ms", nullable(number())),
        ("samples", count()),
    ])
}

pub(crate) fn latency() -> Doc {
    let about = "From the request's arrival to the last byte of its answer, of all requests that match: refused ones too, \
                 unless `outcome=ok` leaves them out. Percentiles are within 1 %.";
    filtered(Doc::new("getUsageLatency", "Latency").about(about)).ok(durations())
}

pub(crate) fn ttft() -> Doc {
    filtered(Doc::new("getUsageTtft", "Time to first token").about("Of streamed answers.")).ok(durations())
}

pub(crate) fn export() -> Doc {
    let about = "All that match, newest first. Absent values are empty. A text that a spreadsheet would take for a formula \
                 has a `'` in front.";
    filtered(Doc::new("exportUsage", "Rows as CSV").about(about))
        .text("text/csv", "A header, and one line for each row.")
}

pub(crate) fn integrity() -> Doc {
    let counts = || object([("rows", count())].into_iter().chain(sums()));
    let mismatch = object([
        ("from", time()),
        ("to", time()),
        ("rows", counts()),
        ("hourly", counts()),
        ("daily", nullable(counts())),
    ]);
    let spool = ["written", "write_errors", "shipped", "replayed", "torn", "backlog_bytes"];
    Doc::new("checkUsage", "Compare usage rows with their sums")
        .about("Day by day, over everything that is kept. It reads all rows: some seconds for ten million.")
        .ok(object([
            ("ok", flag()),
            ("checked_from", nullable(time())),
            ("checked_to", nullable(time())),
            ("rows", count()),
            ("rollup_rows_sum", count()),
            ("mismatches", array(mismatch)),
            ("spool", object(spool.map(|it| (it, count())))),
        ]))
        .errors(&[ErrorCode::TooManyAttempts])
}
