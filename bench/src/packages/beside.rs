//! What an export costs the data plane: the same load without one, during one, and beside a plain `cp` of the same files, which says
//! what the machine alone makes of it.

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::time::sleep;

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
    warm_up: Duration::from_secs(1),
    measured: Duration::from_secs(5),
    drain: Duration::from_secs(10),
};
/// Into the warm-up: clients are there before somebody begins an export.
const BEGINS: Duration = Duration::from_secs(1);

/// Each triple: without an export, during one, and beside `cp`.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    pub(super) p50_us: [f64; 3],
    pub(super) p99_us: [f64; 3],
    /// Shares of the time in which the host took CPUs away. Requests of that time do not count.
    pub(super) stolen: [f64; 3],
    /// Until the export that was cancelled had ended, and had removed what it wrote.
    pub(super) cancel_s: f64,
}

impl Beside {
    pub(super) async fn run(rig: &mut Rig, weights: &Weights, n: u32) -> Result<Self> {
        let rig = &*rig;
        // What was written or removed before must not be on its way to the disk meanwhile.
        forget(&weights.dir)?;
        let quiet = fire(rig).await?;
        let name = format!("beside-{n}");
        let export = async {
            sleep(BEGINS).await;
            let id = rig.begin(&name, None).await?;
            rig.has_written(&id, 1).await?;
            anyhow::Ok(id)
        };
        let (busy, id) = tokio::join!(fire(rig), export);
        let (busy, id) = (busy?, id?);
        let job = rig.job(&id).await?;
        ensure!(job["status"] == "running", "the export ended before the load: use more --gib");
        let start = Instant::now();
        let job = rig.call(http::Method::DELETE, &format!("/admin/deployment/jobs/{id}"), None).await?;
        let cancel_s = start.elapsed().as_secs_f64();
        ensure!(job["status"] == "cancelled", "the export is not cancelled: {job}");
        ensure!(!rig.package(&name).exists(), "a cancelled export has left something");
        forget(&weights.dir)?;
        let copied = async {
            sleep(BEGINS).await;
            Copying::start(weights)
        };
        let (beside_cp, copying) = tokio::join!(fire(rig), copied);
        let beside_cp = beside_cp?;
        drop(copying?);
        let three = |get: fn(&Outcome) -> u32| [&quiet, &busy, &beside_cp].map(|it| f64::from(get(it)));
        let stolen = [quiet.stolen, busy.stolen, beside_cp.stolen];
        Ok(Self { p50_us: three(|it| it.p50_us), p99_us: three(|it| it.p99_us), stolen, cancel_s })
    }
}

async fn fire(rig: &Rig) -> Result<Outcome> {
    let shot = Shot::new(rig.addr(), &rig.key, Ask::Unary { body_bytes: 2_000 });
    let (outcome, _) = load::run(shot, Pace::Open { rate_per_s: RATE_PER_S }, WINDOW, || Ok(())).await?;
    ensure!(outcome.errors == 0, "requests failed: {:?}", outcome.first_error);
    Ok(outcome)
}

/// `cp` of the weights, again and again at the lowest priority, until it is dropped.
struct Copying(Child, std::path::PathBuf);

impl Copying {
    fn start(weights: &Weights) -> Result<Self> {
        let to = weights.dir.with_extension("copied");
        let line = "while :; do rm -rf \"$1\" && cp -r \"$0\" \"$1\" && sync -f \"$1\"; done";
        let mut command = Command::new("nice");
        command.args(["-n", "19", "sh", "-c", line]).args([&weights.dir, &to]);
        // So that what the shell has started can be ended with it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self(command.spawn().context("`cp` can't be run")?, to))
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}
