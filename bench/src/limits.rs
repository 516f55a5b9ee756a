//! Measures what limits cost: the gateway's CPU time for a request of a key without limits, of one whose limits are
//! kept in process, and of one whose limits are shared through Redis. All three take turns in one run, so that their
//! ratios are valid even if the machine's speed changes.
//!
//! The limits are so high that they refuse nothing. Each request is checked against requests and tokens a minute,
//! concurrent requests, and a budget of the day.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{Write as _, stderr, stdout},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    child::{LOAD_CORE, Placement, Running},
    compare::Mock,
    gateway::{self, Launch},
    phases::{self, Phase, Sample, Scale, Target},
    stats::{median, ratio},
};

const FREE: &str = "without limits";
const LOCAL: &str = "in process";
const SHARED: &str = "with Redis";
/// Key without limits in another process than that of [`FREE`] and [`LOCAL`]. It shows how much of a difference is due
/// to the process.
const SHARED_FREE: &str = "without limits (2)";

const READY_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Few and short turns; the figures are rougher.
    #[arg(long)]
    quick: bool,
    /// The gateway's binary.
    #[arg(long)]
    gantry: PathBuf,
    /// Where the results go; the directory is created.
    #[arg(long, default_value = "bench/results/limits.json")]
    out: PathBuf,
    /// Run all parties before every other program (`SCHED_FIFO`), for a machine that is not quiet; needs root.
    #[arg(long)]
    realtime: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    pinned: bool,
    notes: Vec<String>,
    turns: u32,
    /// Median of the gateway's CPU time for a request, in µs.
    cpu_us: BTreeMap<&'static str, Option<f64>>,
    /// Median of the ratios within each turn, as the machine's speed changes from turn to turn.
    ratios: BTreeMap<&'static str, Option<f64>>,
    raw: BTreeMap<&'static str, Vec<Sample>>,
}

/// Runs the comparison and writes the figures.
pub(crate) async fn run(options: Options) -> Result<()> {
    let (placement, mut notes) = Placement::take(options.realtime);
    let scale = if options.quick { Scale::QUICK } else { Scale::FULL };
    let n_turns = if options.quick { 4 } else { 10 };
    let dir = tempfile::tempdir().context("no temporary directory")?;
    let mock = Mock::start(placement)?;
    let redis = start_redis(dir.path(), placement)?;
    let mut targets = Vec::new();
    let mut running = Vec::new();
    for (names, redis_url) in
        [([FREE, LOCAL], None), ([SHARED_FREE, SHARED], redis.as_ref().map(|it| &it.url))]
    {
        if names[1] == SHARED && redis_url.is_none() {
            notes.push("redis-server is not installed: not measured".to_owned());
            break;
        }
        let home = dir.path().join(if redis_url.is_some() { "shared" } else { "local" });
        fs::create_dir(&home)?;
        let mut launch = Launch::prepare(&options.gantry, &home, placement)?;
        launch.redis_url = redis_url.cloned();
        let (process, [free, limited]) =
            gateway::start_with_keys(&launch, mock.addr, limits_out_of_reach()).await?;
        for (name, key) in names.into_iter().zip([free, limited]) {
            targets.push(Target { name, addr: launch.addr, key, pid: Some(process.pid()) });
        }
        running.push(process);
    }
    let raw = take_turns(n_turns, targets, &scale).await?;
    for process in running {
        process.stop()?;
    }
    let report = Report {
        date: jiff::Timestamp::now().to_string(),
        pinned: placement.is_pinned,
        notes,
        turns: n_turns,
        cpu_us: raw
            .iter()
            .map(|(name, all)| (*name, median(all.iter().filter_map(|it| it.cpu_us))))
            .collect(),
        ratios: [(LOCAL, FREE), (SHARED, FREE), (SHARED_FREE, FREE)]
            .into_iter()
            .map(|(name, to)| (name, ratio_of_turns(&raw, name, to)))
            .collect(),
        raw,
    };
    if let Some(dir) = options.out.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    }
    fs::write(&options.out, serde_json::to_string_pretty(&report)? + "\n")
        .with_context(|| format!("cannot write `{}`", options.out.display()))?;
    write!(stdout(), "{}", table(&report))?;
    writeln!(stdout(), "written to {}", options.out.display())?;
    Ok(())
}

/// Returns a key whose limits are all checked and never reached.
fn limits_out_of_reach() -> Value {
    json!({
        "name": "limited", "scopes": "chat", "rpm_limit": 1_000_000_000, "tpm_limit": 1_000_000_000,
        "max_concurrency": 1_000_000, "budget_tokens_day": 100_000_000_000_000_i64,
    })
}

/// Measures each target once in each turn.
async fn take_turns(
    n_turns: u32,
    mut targets: Vec<Target>,
    scale: &Scale,
) -> Result<BTreeMap<&'static str, Vec<Sample>>> {
    let mut raw: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
    for turn in 1..=n_turns {
        for target in &targets {
            writeln!(stderr(), "turn {turn}/{n_turns}: {}", target.name)?;
            let sample = phases::measure(Phase::Unary, target, scale).await?;
            let errors = sample.outcome.errors;
            let first = sample.outcome.first_error.as_deref().unwrap_or_default();
            ensure!(errors == 0, "{}: {errors} errors; the first: {first}", target.name);
            raw.entry(target.name).or_default().push(sample);
        }
        // The order of the targets is reversed every time.
        targets.reverse();
    }
    Ok(raw)
}

fn ratio_of_turns(raw: &BTreeMap<&'static str, Vec<Sample>>, name: &str, to: &str) -> Option<f64> {
    let pairs = raw.get(name)?.iter().zip(raw.get(to)?);
    median(pairs.filter_map(|(one, other)| ratio(one.cpu_us, other.cpu_us)))
}

fn table(report: &Report) -> String {
    let cell = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |it| format!("{it:.digits$}"))
    };
    let mut out = format!("{:<24}{:>18}{:>10}\n", "limits", "CPU µs/request", "ratio");
    // Writing to a string cannot fail.
    for name in [FREE, LOCAL, SHARED, SHARED_FREE] {
        let (cpu, ratio) =
            (report.cpu_us.get(name).copied().flatten(), report.ratios.get(name).copied().flatten());
        writeln!(out, "{name:<24}{:>18}{:>10}", cell(cpu, 1), cell(ratio, 3)).ok();
    }
    for note in &report.notes {
        writeln!(out, "note: {note}").ok();
    }
    out
}

/// A Redis that this program started.
struct Redis {
    /// Ends it when dropped.
    _process: Running,
    /// Address of its socket.
    url: String,
}

/// Starts a Redis on a socket of its own; `None` if there is no `redis-server`.
fn start_redis(dir: &Path, placement: Placement) -> Result<Option<Redis>> {
    let socket = dir.join("redis.sock");
    let mut command = placement.command(LOAD_CORE, Path::new("redis-server"));
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    if crate::child::version("redis-server", "--version") == "unknown" {
        return Ok(None);
    }
    let mut running = Running::start("redis", &mut command, dir)?;
    let began = std::time::Instant::now();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        running.check()?;
        ensure!(began.elapsed() < READY_WITHIN, "Redis does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(Redis { _process: running, url: format!("unix://{}", socket.display()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_turns_beside_each_other() {
        let sample = |cpu_us| {
            let outcome = crate::load::Outcome {
                requests: 1,
                errors: 0,
                first_error: None,
                rps: 1.0,
                p50_us: 1,
                p90_us: 1,
                p99_us: 1,
                stolen: 0.0,
                steal: 0.0,
                chunks: 0,
                all_requests: 1,
                all_chunks: 0,
                measured_s: 1.0,
            };
            Sample { outcome, cpu_us: Some(cpu_us), busy: None }
        };
        // In each turn the machine was twice as slow as before, and limits cost a tenth more.
        let raw = BTreeMap::from([
            (FREE, [10.0, 20.0, 40.0].map(sample).to_vec()),
            (LOCAL, [11.0, 22.0, 44.0].map(sample).to_vec()),
        ]);
        assert!((ratio_of_turns(&raw, LOCAL, FREE).unwrap() - 1.1).abs() < 1e-9);
        assert_eq!(ratio_of_turns(&raw, SHARED, FREE), None);
    }
}
