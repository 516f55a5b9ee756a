//! `/admin/upstreams`: the engines that requests go to, as the gateway's probes see them.

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::host::UpstreamView;

use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Fields, MaybeObject, Params},
};

/// Most names in one refresh.
const MAX_NAMES: usize = 1000;

/// Health of all engines
///
/// Lists managed models and engines entered by hand, by served name, with each of their addresses. Each is probed at
/// `/v1/models` every `HEALTH_POLL_SEC` seconds; `history` has its last 60 probes. A model that does not run has no
/// `url` and is not healthy.
pub(crate) async fn list(app: State<App>, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    params.finish()?;
    Ok(page.of(app.monitor.upstreams()))
}

/// Probe engines now
///
/// `served_names` says which; without it, or without a body, all are. Answers when the probes are done, with those
/// engines.
pub(crate) async fn refresh(app: State<App>, body: MaybeObject) -> Outcome<Json<Vec<UpstreamView>>> {
    let mut fields = Fields::new(body.0);
    let names = fields.optional("served_names", "a list of served names", |it| {
        let names: Option<Vec<String>> =
            it.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect();
        names.filter(|it| it.len() <= MAX_NAMES)
    });
    fields.finish()?;
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
