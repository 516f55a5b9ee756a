//! `GET /auth/models`: what a user may call.

use axum::extract::State;
use gantry_domain::{
    host::RouteHealth,
    model::{EngineKind, State as ModelState, Task},
    view,
};

use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Listed, Operation, Page, Query},
};

view! {
    /// One served name.
    #[derive(Debug)]
    pub(crate) struct OwnModel {
        served_name: String,
        task: Task,
        /// `null`: the engine runs elsewhere.
        engine_type: Option<EngineKind>,
        /// `null`: the engine runs elsewhere, and nobody here starts or stops it.
        state: Option<ModelState>,
        /// Requests are served now.
        callable: bool,
    }
}

pub(crate) const LIST: Operation = Operation::new("listOwnModels", "Models that one may call").about(
    "The list is in the order of the served names. It contains models that do not run just now, too. A key may be for \
     fewer of them.",
);

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Outcome<Listed<OwnModel>> {
    let mut tx = app.store.read().await?;
    let (models, registry) = (tx.readable_models().await?.rows, tx.readable_registry().await?.rows);
    drop(tx);
    let mut all = Vec::new();
    for model in models {
        let state = model.state().0;
        let model = if state.is_active() { model.as_launched() } else { model };
        let names = model.adapters().into_iter().map(str::to_owned).chain([model.served_name.clone()]);
        all.extend(names.map(|served_name| OwnModel {
            callable: is_callable(&app, &served_name),
            served_name,
            task: model.task,
            engine_type: Some(model.engine),
            state: Some(state),
        }));
    }
    all.extend(registry.into_iter().map(|entry| OwnModel {
        callable: is_callable(&app, &entry.served_name),
        served_name: entry.served_name,
        task: entry.task,
        engine_type: None,
        state: None,
    }));
    all.retain(|it| caller.user.models.as_ref().is_none_or(|names| names.contains(&it.served_name)));
    all.sort_unstable_by(|a, b| a.served_name.cmp(&b.served_name));
    Ok(page.of(all))
}

fn is_callable(app: &App, served_name: &str) -> bool {
    app.data_plane.route_health(served_name).is_some_and(RouteHealth::is_ok)
}
