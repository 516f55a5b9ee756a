//! What people would use instead: `cp`, `sha256sum`, and `openssl dgst`.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

/// Priority of the gateway's jobs. What is compared with them has it too: otherwise other work on the machine would
/// count for them alone.
const NICE: &str = "19";

/// Runs a line of a shell with the folder as `$0`, and returns how many seconds it took.
fn timed(line: &str, dir: &Path, more: &Path, is_nice: bool) -> Result<f64> {
    // Not by `nice`, which counts from the priority of its caller.
    let line = if is_nice { format!("renice {NICE} -p $$; {line}") } else { line.to_owned() };
    let mut command = Command::new("sh");
    command.args(["-c", &line]).arg(dir).arg(more);
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().context("no shell")?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(seconds)
}

pub(super) fn cp(from: &Path, to: &Path) -> Result<f64> {
    timed("cp -r \"$0\" \"$1\"", from, to, true)
}

pub(super) fn sync(dir: &Path) -> Result<f64> {
    timed("sync -f \"$0\"", dir, dir, true)
}

pub(super) fn sha256sum(dir: &Path) -> Result<f64> {
    timed("find \"$0\" -type f -exec sha256sum {} +", dir, dir, true)
}

/// The same with OpenSSL; `None` if it is not installed.
pub(super) fn openssl(dir: &Path) -> Result<Option<f64>> {
    if !has_openssl() {
        return Ok(None);
    }
    timed("find \"$0\" -type f -exec openssl dgst -sha256 -r {} +", dir, dir, true).map(Some)
}

/// Files one by one, as many at a time as there are processors.
pub(super) fn sha256sum_all(dir: &Path) -> Result<f64> {
    timed("find \"$0\" -type f -print0 | xargs -0 -n1 -P\"$(nproc)\" sha256sum", dir, dir, false)
}

/// The same with OpenSSL; `None` if it is not installed.
pub(super) fn openssl_all(dir: &Path) -> Result<Option<f64>> {
    if !has_openssl() {
        return Ok(None);
    }
    let line = "find \"$0\" -type f -print0 | xargs -0 -n1 -P\"$(nproc)\" openssl dgst -sha256 -r";
    timed(line, dir, dir, false).map(Some)
}

fn has_openssl() -> bool {
    Command::new("openssl").arg("version").output().is_ok_and(|it| it.status.success())
}
