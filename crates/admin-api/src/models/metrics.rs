//! `GET /admin/models/metrics`: what the engines count, one entry for each model. Engines that run are asked, all at
//! once; the other models are listed with their state.

use axum::extract::State;
use futures_util::future::join_all;
use gantry_domain::{
    ModelId,
    engine_metrics::EngineMetrics,
    model::{EngineKind, Model, State as ModelState},
    view,
};

use crate::{
    App,
    error::Outcome,
    operation::{Listed, Operation, Page, Query},
};

view! {
    /// One model.
    #[derive(Debug)]
    pub(crate) struct ModelMetrics {
        model_id: ModelId,
        served_name: String,
        engine_type: EngineKind,
        state: ModelState,
        metrics: EngineMetrics => part,
        /// Why a model that runs has no metrics.
        error: Option<String>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listModelMetrics", "Metrics of all engines").about(
    "The metrics are read from each engine's own `/metrics`; its counters and percentiles are over the engine's life. \
     llama.cpp has no histograms: its percentiles are the gateway's own, since it started and for the requests that came \
     through it, as `latency_source` says. What nobody knows is `null`, and so is everything of a model that does not run \
     or could not be asked.",
);

pub(crate) async fn list(app: State<App>, Query(page): Query<Page>) -> Outcome<Listed<ModelMetrics>> {
    let models = app.store.read().await?.models(false).await?;
    let Listed(window, n) = page.of(models);
    Ok(Listed(join_all(window.into_iter().map(|it| ask(&app, it))).await, n))
}

async fn ask(app: &App, model: Model) -> ModelMetrics {
    let state = model.state().0;
    let (metrics, error) = match state {
        ModelState::Running => match app.engines.metrics(&model).await {
            Ok(metrics) => (metrics, None),
            Err(error) => (EngineMetrics::default(), Some(error)),
        },
        _ => (EngineMetrics::default(), None),
    };
    let Model { id, served_name, engine, .. } = model;
    ModelMetrics { model_id: id, served_name, engine_type: engine, state, metrics, error }
}
