//! Writes when tokens were used, and deletes tokens that expired long ago.

use std::time::Duration;

use gantry_store::{StoreResult, in_time};
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::App;

const WRITE_EVERY: Duration = Duration::from_secs(10);
/// Time between two deletions of old tokens, in units of [`WRITE_EVERY`]: an hour.
const PURGE_EVERY: u32 = 360;
/// How long an expired token stays in lists, so that people see why a script ended.
const KEEP_EXPIRED: Duration = Duration::from_hours(30 * 24);

/// Writes uses every 10 s and at the end, and deletes tokens that expired long ago.
pub async fn keep(app: App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut tick = tokio::time::interval(WRITE_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut n: u32 = 0;
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = tick.tick() => {}
        }
        write(&app).await;
        if n.is_multiple_of(PURGE_EVERY) {
            told(in_time(purge(&app)).await, "tokens that expired long ago could not be deleted");
        }
        n = n.wrapping_add(1);
    }
    write(&app).await;
}

async fn write(app: &App) {
    let uses = app.accounts.token_uses.take();
    if uses.is_empty() {
        return;
    }
    let done = in_time(async {
        let mut tx = app.store.write().await?;
        tx.touch_tokens(&uses).await?;
        tx.commit().await
    });
    let done = done.await;
    if done.is_err() {
        app.accounts.token_uses.put_back(uses);
    }
    told(done, "when tokens were last used could not be stored");
}

async fn purge(app: &App) -> StoreResult<()> {
    let mut tx = app.store.write().await?;
    tx.purge_tokens(app.clock.now().minus(KEEP_EXPIRED)).await?;
    tx.commit().await
}

fn told(result: StoreResult<()>, what: &str) {
    if let Err(error) = result {
        warn!(error = &error as &dyn std::error::Error, "{what}");
    }
}
