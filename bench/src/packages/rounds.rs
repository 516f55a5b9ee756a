//! One round: copy and hash with the usual tools, export, verify, plan, and export a difference.

use std::{fs, process::Command, time::Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use super::{
    rig::Rig,
    tools,
    weights::{Weights, forget},
};
use crate::procfs;

/// Seconds, unless the name says otherwise.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub(super) cp_s: f64,
    /// Until the copy is on the disk. An export that has completed is.
    pub(super) sync_s: f64,
    /// The sums of the copy, from the page cache as far as it is there.
    pub(super) sha256sum_s: f64,
    pub(super) openssl_s: Option<f64>,
    pub(super) export_s: f64,
    pub(super) export_extra_mib: f64,
    /// By system calls, all in all.
    pub(super) export_read_bytes: u64,
    pub(super) export_written_bytes: u64,
    pub(super) sha256sum_all_s: f64,
    pub(super) openssl_all_s: Option<f64>,
    pub(super) verify_s: f64,
    pub(super) verify_peak_mib: f64,
    pub(super) show_s: f64,
    pub(super) dry_run_s: f64,
    pub(super) delta_s: f64,
    pub(super) delta_mib: f64,
}

impl Round {
    pub(super) async fn run(rig: &mut Rig, weights: &Weights, n: u32) -> Result<Self> {
        let copy = rig.package("copy");
        forget(&weights.dir)?;
        let cp_s = tools::cp(&weights.dir, &copy)?;
        let sha256sum_s = tools::sha256sum(&copy)?;
        let openssl_s = tools::openssl(&copy)?;
        let sync_s = tools::sync(&copy)?;
        fs::remove_dir_all(&copy)?;

        forget(&weights.dir)?;
        let pid = rig.pid()?;
        let bytes_before = procfs::file_bytes(pid)?;
        let name = format!("package-{n}");
        let (export_s, export_extra_mib) =
            rig.with_extra_mib(async |it| it.export(&name, None).await).await?;
        let bytes = procfs::file_bytes(pid)?;

        let package = rig.package(&name);
        forget(&package)?;
        let sha256sum_all_s = tools::sha256sum_all(&package)?;
        forget(&package)?;
        let openssl_all_s = tools::openssl_all(&package)?;
        forget(&package)?;
        let [verify_s, verify_peak_mib] = rig.package_verb("verify", &name)?;
        forget(&package)?;
        let [show_s, _] = rig.package_verb("show", &name)?;
        let start = Instant::now();
        rig.post(
            "/admin/deployment/import",
            json!({ "output_dir": name, "dry_run": true, "include_images": false }),
        )
        .await?;
        let dry_run_s = start.elapsed().as_secs_f64();

        let (delta_s, delta_mib) = difference(rig, &name, n).await?;
        fs::remove_dir_all(package)?;
        Ok(Self {
            cp_s,
            sync_s,
            sha256sum_s,
            openssl_s,
            export_s,
            export_extra_mib,
            export_read_bytes: bytes[0] - bytes_before[0],
            export_written_bytes: bytes[1] - bytes_before[1],
            sha256sum_all_s,
            openssl_all_s,
            verify_s,
            verify_peak_mib,
            show_s,
            dry_run_s,
            delta_s,
            delta_mib,
        })
    }
}

/// Exports the difference to a package after one setting was changed. Returns seconds and MiB.
async fn difference(rig: &mut Rig, base: &str, n: u32) -> Result<(f64, f64)> {
    let changed = json!({ "request_timeout_sec": 600 + n });
    rig.call(http::Method::PATCH, "/admin/models/1", Some(changed)).await?;
    let name = format!("delta-{n}");
    let seconds = rig.export(&name, Some(base)).await?;
    let mib = apparent_mib(&rig.package(&name))?;
    fs::remove_dir_all(rig.package(&name))?;
    Ok((seconds, mib))
}

/// Bytes of all files in a folder.
fn apparent_mib(dir: &std::path::Path) -> Result<f64> {
    let output = Command::new("du").args(["-s", "--apparent-size", "-B1"]).arg(dir).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bytes: f64 =
        text.split_whitespace().next().and_then(|it| it.parse().ok()).context("`du` says nothing")?;
    Ok(bytes / 1_048_576.0)
}
