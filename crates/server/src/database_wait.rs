//! Waiting for a database that is not there yet when the gateway starts.

use std::time::{Duration, Instant};

use gantry_store::StoreResult;
use tracing::warn;

/// Pause between two attempts to reach the database.
const PAUSE: Duration = Duration::from_secs(1);

/// Does something with the database. Waits up to `patience` for a database server that starts later than the gateway, for
/// example after a power cut. A signal ends the wait, as it ends everything before the gateway is ready. An error that
/// waiting does not fix is returned at once.
pub(crate) async fn patiently<T>(
    url: &str,
    patience: Duration,
    mut work: impl AsyncFnMut() -> StoreResult<T>,
) -> StoreResult<T> {
    let until = Instant::now() + patience;
    loop {
        match work().await {
            Err(error) if error.is_unavailable() && !url.starts_with("sqlite:") && Instant::now() < until => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "the database does not answer yet: trying again"
                );
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}
