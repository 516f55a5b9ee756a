//! What an export costs the data plane: the same load without one and during one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{
    rig::Rig,
    weights::{Weights, forget},
};
use crate::{
    load::{self, Outcome, Pace, Window},
    shot::{Ask, Shot},
};

const RATE_PER_S: f64 = 300.0;
const WINDOW: Window = Window {
    warm_up: Duration::from_millis(500),
    measured: Duration::from_secs(5),
    drain: Duration::from_secs(10),
};

/// Each pair: without an export, and during one.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    pub(super) p50_us: [f64; 2],
    pub(super) p99_us: [f64; 2],
    /// Until the export that was cancelled had ended, and had removed what it wrote.
    pub(super) cancel_s: f64,
}

impl Beside {
    pub(super) async fn run(rig: &mut Rig, weights: &Weights, n: u32) -> Result<Self> {
        // What was written or removed before must not be on its way to the disk meanwhile.
        forget(&weights.dir)?;
        let quiet = fire(rig).await?;
        let name = format!("beside-{n}");
        let id = rig.begin(&name, None).await?;
        rig.has_written(&id, 1).await?;
        let busy = fire(rig).await?;
        let job = rig.job(&id).await?;
        ensure!(job["status"] == "running", "the export ended before the load: use more --gib");
        let start = Instant::now();
        let job = rig.call(http::Method::DELETE, &format!("/admin/deployment/jobs/{id}"), None).await?;
        let cancel_s = start.elapsed().as_secs_f64();
        ensure!(job["status"] == "cancelled", "the export is not cancelled: {job}");
        ensure!(!rig.package(&name).exists(), "a cancelled export has left something");
        let pair = |get: fn(&Outcome) -> u32| [&quiet, &busy].map(|it| f64::from(get(it)));
        Ok(Self { p50_us: pair(|it| it.p50_us), p99_us: pair(|it| it.p99_us), cancel_s })
    }
}

async fn fire(rig: &Rig) -> Result<Outcome> {
    let shot = Shot::new(rig.addr(), &rig.key, Ask::Unary { body_bytes: 2_000 });
    let (outcome, _) = load::run(shot, Pace::Open { rate_per_s: RATE_PER_S }, WINDOW, || Ok(())).await?;
    ensure!(outcome.errors == 0, "requests failed: {:?}", outcome.first_error);
    Ok(outcome)
}
