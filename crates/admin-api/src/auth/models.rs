//! `GET /auth/models`: what a user may call.

use axum::extract::State;
use gantry_domain::{host::RouteHealth, identity::User};

use super::own_model::OwnModel;
use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Listed, Operation, Page, Query},
};

pub(crate) const LIST: Operation = Operation::new("listOwnModels", "Models that one may call").about(
    "The list is in the order of the served names. It contains models that do not run just now, too. A key may be for \
     fewer of them.",
);

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Outcome<Listed<OwnModel>> {
    let mut all = every(&app).await?;
    all.retain(|it| is_allowed(&caller.user, it));
    Ok(page.of(all))
}

/// Whether an administrator allows this model to the user.
pub(super) fn is_allowed(user: &User, model: &OwnModel) -> bool {
    user.models.as_ref().is_none_or(|names| names.contains(&model.served_name))
}

/// Returns everything that can be called, in the order of the served names.
pub(crate) async fn every(app: &App) -> Outcome<Vec<OwnModel>> {
    let mut tx = app.store.read().await?;
    let (models, registry) = (tx.readable_models().await?.rows, tx.readable_registry().await?.rows);
    drop(tx);
    let mut all = Vec::new();
    for model in models {
        let state = model.state().0;
        let model = if state.is_active() { model.as_launched() } else { model };
        let names = model.adapters().into_iter().map(str::to_owned).chain([model.served_name.clone()]);
        all.extend(names.map(|served_name| OwnModel {
            callable: is_callable(app, &served_name),
            served_name,
            task: model.task,
            engine_type: Some(model.engine),
            state: Some(state),
        }));
    }
    all.extend(registry.into_iter().map(|entry| OwnModel {
        callable: is_callable(app, &entry.served_name),
        served_name: entry.served_name,
        task: entry.task,
        engine_type: None,
        state: None,
    }));
    all.sort_unstable_by(|a, b| a.served_name.cmp(&b.served_name));
    Ok(all)
}

fn is_callable(app: &App, served_name: &str) -> bool {
    app.data_plane.route_health(served_name).is_some_and(RouteHealth::is_ok)
}
