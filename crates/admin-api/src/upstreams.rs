//! `/admin/upstreams`: the engines that requests go to, as the gateway's probes see them.

use std::borrow::Cow;

use axum::{Json, extract::State};
use gantry_domain::{
    Timestamp,
    host::UpstreamView,
    schema::{Components, list as array, text},
};
use serde_json::Value;

use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Field, Listed, Operation, OptionalBody, Page, Query, form},
};

/// Most names in one refresh.
const MAX_NAMES: usize = 1000;

pub(crate) const LIST: Operation = Operation::new("listUpstreams", "Health of all engines").about(
    "The list has managed models and engines that were entered by hand, by served name; one with several addresses is there \
     with each of them. Each is probed at `/v1/models` every `HEALTH_POLL_SEC` seconds; `history` has its last 60 probes. A \
     model that does not run has no `url` and is not healthy. `breaker.keeps_away` says whether a breaker that is not \
     closed keeps all callers away, or only those whose requests got errors.",
);

pub(crate) async fn list(app: State<App>, Query(page): Query<Page>) -> Outcome<Listed<UpstreamView>> {
    Ok(page.of(app.monitor.upstreams()))
}

form! {
    pub(crate) struct Refresh {
        /// The served names whose engines are probed; without it, all engines are.
        served_names: optional Names,
    }
}

/// Served names, as many as one refresh may have.
pub(crate) struct Names;

impl Field for Names {
    type Value = Vec<String>;

    fn allowed() -> Cow<'static, str> {
        "a list of served names".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Vec<String>> {
        let names: Option<Vec<String>> =
            value.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect();
        names.filter(|it| it.len() <= MAX_NAMES)
    }

    fn schema(_: &mut Components) -> Value {
        let mut names = array(text());
        names["maxItems"] = MAX_NAMES.into();
        names
    }
}

pub(crate) const REFRESH: Operation = Operation::new("refreshUpstreams", "Probe engines now")
    .about("The answer comes when the probes are done, and has the engines that were probed.");

pub(crate) async fn refresh(
    app: State<App>,
    OptionalBody(Refresh { served_names: names }): OptionalBody<Refresh>,
) -> Outcome<Json<Vec<UpstreamView>>> {
    if let Some(names) = &names {
        let known = app.monitor.upstreams();
        if let Some(name) = names.iter().find(|name| known.iter().all(|it| it.served_name != **name)) {
            let shown: String = name.chars().take(200).collect();
            return Err(Problem::invalid(
                "served_names",
                format!("nothing is served under the name `{shown}`"),
            ));
        }
    }
    app.monitor.probe(names.clone()).await;
    let mut all = app.monitor.upstreams();
    all.retain(|it| names.as_ref().is_none_or(|names| names.contains(&it.served_name)));
    Ok(Json(all))
}
