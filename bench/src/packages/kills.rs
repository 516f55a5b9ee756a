//! An export whose gateway is killed, and the next one into the same folder: how much work is done twice.

use std::{fs, io, time::Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    rig::Rig,
    rounds::Round,
    weights::{Weights, forget},
};
use crate::{procfs, stats::median};

const MIB: f64 = 1_048_576.0;

#[derive(Debug, Serialize)]
pub(super) struct Kill {
    /// Share of the export that was done.
    pub(super) at: f64,
    /// What both exports wrote, over what one that is not interrupted writes.
    pub(super) written_twice_mib: f64,
    /// The same of what they read.
    pub(super) read_twice_mib: f64,
    /// Seconds of the second export.
    pub(super) again_s: f64,
}

impl Kill {
    pub(super) async fn run(
        rig: &mut Rig,
        weights: &Weights,
        rounds: &[Round],
        n: u32,
        at: f64,
    ) -> Result<Self> {
        let usual = |get: fn(&Round) -> u64| {
            median(rounds.iter().map(|it| get(it) as f64)).context("no export was measured")
        };
        let [read, written] = [usual(|it| it.export_read_bytes)?, usual(|it| it.export_written_bytes)?];
        let name = format!("killed-{n}");
        forget(&weights.dir)?;
        // What the rounds have remembered would hide what is read twice.
        match fs::remove_file(rig.sums()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let before = procfs::file_bytes(rig.pid()?)?;
        let id = rig.begin(&name, None).await?;
        rig.has_written(&id, (weights.bytes as f64 * at) as u64).await?;
        // It must not go on between the reading and the kill.
        rig.signal("-STOP")?;
        let first = procfs::file_bytes(rig.pid()?)?;
        rig.kill().await?;
        let start = Instant::now();
        let begun = procfs::file_bytes(rig.pid()?)?;
        rig.export(&name, None).await?;
        let again_s = start.elapsed().as_secs_f64();
        let second = procfs::file_bytes(rig.pid()?)?;
        // Whatever was interrupted, it has to be whole.
        rig.package_verb("verify", &name)?;
        fs::remove_dir_all(rig.package(&name))?;
        let twice = |which: usize, usual: f64| {
            let both = (first[which] - before[which]) + (second[which] - begun[which]);
            (both as f64 - usual) / MIB
        };
        Ok(Self { at, written_twice_mib: twice(1, written), read_twice_mib: twice(0, read), again_s })
    }
}
