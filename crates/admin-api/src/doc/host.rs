//! `/admin/upstreams`.

use serde_json::{Value, json};

use super::{
    Doc,
    schema::{count, described, flag, list, named, nullable, number, object, one_of, request, text, time},
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let probe =
        [("ts", time()), ("ok", flag()), ("latency_ms", nullable(number())), ("error", nullable(text()))];
    let breaker = [
        ("state", one_of(&["closed", "open", "half_open"])),
        ("keeps_away", nullable(one_of(&["all", "some"]))),
        ("cooldown_remaining_sec", number()),
    ];
    vec![(
        "Upstream",
        object([
            ("served_name", text()),
            ("url", nullable(text())),
            ("task", named("Task")),
            ("engine_type", described(nullable(named("Engine")), "`null`: entered by hand.")),
            ("source", one_of(&["manual", "managed"])),
            ("healthy", flag()),
            ("last_ok_at", nullable(time())),
            ("last_error", nullable(text())),
            ("latency_ms", nullable(number())),
            ("consecutive_failures", count()),
            ("breaker", object(breaker)),
            ("in_flight", count()),
            ("models", list(text())),
            ("history", list(object(probe))),
        ]),
    )]
}

pub(crate) fn upstreams() -> Doc {
    Doc::new("listUpstreams", "Health of all engines")
        .about(
            "Managed models and engines entered by hand, by served name; one with several addresses is there with each of \
             them. Each is probed at `/v1/models` every `HEALTH_POLL_SEC` seconds; `history` has its last 60 probes. A \
             model that does not run has no `url` and is not healthy. `breaker.keeps_away` says whether a breaker that \
             is not closed keeps all callers away, or only those whose requests got errors.",
        )
        .paged()
        .list(named("Upstream"))
}

pub(crate) fn refresh() -> Doc {
    let mut names = json!({ "type": ["array", "null"], "maxItems": 1000 });
    names["items"] = text();
    Doc::new("refreshUpstreams", "Probe engines now")
        .about("Answers when the probes are done, with those engines.")
        .body(request(&[], [("served_names", described(names, "Which; without it, all."))]))
        .or_without_body()
        .ok(list(named("Upstream")))
}
