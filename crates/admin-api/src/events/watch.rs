//! Looks at the models and tells the [feed](crate::feed) what changed. Models are not looked at while nobody listens.

use std::time::Duration;

use gantry_domain::{diagnosis::Diagnosis, model::Model};
use tracing::warn;

use super::message::{ModelNow, Pull};
use crate::{App, auth, error::Outcome, feed::Seen, models};

/// How often models are looked at, besides after every phase that the reconciler stores. This finds what another
/// gateway or a command changed, and how far pulls are.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Looks at all models and sends events about what changed since the last time.
pub(super) async fn look(app: &App) -> Outcome<()> {
    let read = async {
        let models = app.store.read().await?.models(true).await?;
        Ok(models.iter().map(|it| (it.id, seen(app, it))).collect())
    };
    app.signals.feed.update(read).await
}

/// Looks at everything that can be called, and tells those who follow it what changed since the last time.
pub(crate) async fn look_callable(app: &App) -> Outcome<()> {
    app.signals.feed.update_callable(auth::models::every(app)).await
}

fn seen(app: &App, model: &Model) -> Seen {
    let (state, reason) = model.state();
    let live = app.engines.live(model.id);
    Seen {
        model: ModelNow {
            id: model.id,
            served_name: model.served_name.clone(),
            state,
            state_reason: reason,
            needs_apply: models::needs_apply(model, &live).is_some(),
            archived: model.archived,
            diagnosis: model.diagnosis.as_ref().map(Diagnosis::line),
        },
        pull: live.pull.map(|(done, known)| Pull { done, known }),
    }
}

/// Looks at models while somebody listens, until `stop` ends.
pub async fn watch(app: App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut phases = app.signals.phases.subscribe();
    loop {
        let feed = &app.signals.feed;
        let listened_to = feed.has_readers() || feed.has_callable_readers();
        tokio::select! {
            () = &mut stop => return,
            () = feed.reader_came() => {}
            // If phases came too fast to be read one by one, that is a reason to look, too.
            _ = phases.recv(), if listened_to => {}
            () = tokio::time::sleep(LOOK_EVERY), if listened_to => {}
        }
        if feed.has_readers() {
            warn_of(look(&app).await);
        }
        if feed.has_callable_readers() {
            warn_of(look_callable(&app).await);
        }
    }
}

fn warn_of(look: Outcome<()>) {
    if let Err(problem) = look {
        warn!(error = problem.0.message, "the models can't be looked at for who watches them");
    }
}
