//! The comparison: starts mock, nginx and gateway, measures them in turns, writes the results.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _, stderr, stdout},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread::available_parallelism,
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    select,
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
};

use crate::{
    child::{LOAD_CORE, Placement, version},
    gateway, nginx,
    phases::{self, Phase, Scale, Target},
    procfs,
    report::{self, DIRECT, GATEWAY, Machine, NGINX, Ratios, Raw, Report},
};

/// Smallest limit of open files: sockets of 1,000 streams in the busiest process, with some room.
const MIN_OPEN_FILES: u64 = 4096;

/// Largest share of requests that may fail. With more errors the run measured something else.
const MAX_ERROR_SHARE: f64 = 0.001;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Two short rounds, within three minutes; the figures are rougher.
    #[arg(long)]
    quick: bool,
    /// The gateway's binary; without it only nginx is measured.
    #[arg(long)]
    gantry: Option<PathBuf>,
    /// Where the results go; the directory is created.
    #[arg(long, default_value = "bench/results/latest.json")]
    out: PathBuf,
    /// Run all parties before every other program (`SCHED_FIFO`), for a machine that is not quiet; needs root.
    #[arg(long)]
    realtime: bool,
}

/// Runs the comparison; a signal ends it and its children.
pub(crate) async fn run(options: Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    select! {
        done = compare(options) => done,
        _ = ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn compare(options: Options) -> Result<()> {
    let limit = procfs::open_file_limit().unwrap_or(u64::MAX);
    ensure!(
        limit >= MIN_OPEN_FILES,
        "only {limit} open files allowed; run `ulimit -n {MIN_OPEN_FILES}` first"
    );
    let nginx_version = version("nginx", "-v");
    ensure!(nginx_version != "unknown", "nginx is not installed or not in the path");
    let scale = if options.quick { Scale::QUICK } else { Scale::FULL };
    // Counted before this process binds itself to one core.
    let cores = available_parallelism().map_or(1, usize::from);
    let (placement, mut notes) = Placement::take(options.realtime);
    let mut versions =
        BTreeMap::from([("bench", env!("CARGO_PKG_VERSION").to_owned()), (NGINX, nginx_version)]);
    if let Some(binary) = &options.gantry {
        versions.insert(GATEWAY, version(binary, "--version"));
    }

    let raw = measure_all(options.gantry.as_deref(), placement, &scale, &mut notes).await?;
    let report = Report {
        date: jiff::Timestamp::now().to_string(),
        machine: Machine {
            cores,
            kernel: procfs::kernel(),
            cpu: procfs::cpu_model(),
            pinned: placement.is_pinned,
            realtime: placement.is_realtime,
        },
        versions,
        rounds: scale.n_rounds,
        scale,
        notes,
        ratios: Ratios::of(&raw),
        raw,
    };
    if let Some(dir) = options.out.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    }
    fs::write(&options.out, serde_json::to_string_pretty(&report)? + "\n")
        .with_context(|| format!("cannot write `{}`", options.out.display()))?;
    write!(stdout(), "{}", report::table(&report))?;
    writeln!(stdout(), "written to {}", options.out.display())?;
    check_errors(&report.raw)
}

/// Starts everything, measures each target in turns, and stops everything.
async fn measure_all(
    binary: Option<&Path>,
    placement: Placement,
    scale: &Scale,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<&'static str, Raw>> {
    let dir = tempfile::tempdir().context("no temporary directory")?;
    let mock = Mock::start(placement)?;
    let key = format!("bench-{:032x}", rand::random::<u128>());
    let nginx = nginx::start(dir.path(), placement, mock.addr, &key).await?;
    let gateway = if let Some(binary) = binary {
        Some(gateway::start(binary, dir.path(), placement, mock.addr).await?)
    } else {
        notes.push("no gateway given: nginx alone".to_owned());
        None
    };

    let mut targets = vec![
        Target { name: DIRECT, addr: mock.addr, key: key.clone(), pid: None },
        Target { name: NGINX, addr: nginx.addr, key, pid: Some(nginx.running.pid()) },
    ];
    let mut raw = BTreeMap::from([(DIRECT, Raw::default()), (NGINX, Raw::default())]);
    raw.entry(NGINX).or_default().ready_ms = Some(nginx.ready_ms);
    raw.entry(NGINX).or_default().idle_rss_mib = Some(mib(procfs::rss_kib(nginx.running.pid())?));
    if let Some(gateway) = &gateway {
        targets.push(Target {
            name: GATEWAY,
            addr: gateway.addr,
            key: gateway.key.clone(),
            pid: Some(gateway.running.pid()),
        });
        let entry = raw.entry(GATEWAY).or_default();
        entry.ready_ms = Some(gateway.ready_ms);
        entry.idle_rss_mib = Some(mib(gateway.idle_rss_kib));
    }
    for target in &targets {
        let what = || format!("memory of open streams of {}", target.name);
        let per_stream = phases::kib_per_stream(target, scale).await.with_context(what)?;
        raw.entry(target.name).or_default().kib_per_stream = per_stream;
    }
    rounds(&mut targets, scale, &mut raw).await?;
    if let Some(gateway) = gateway {
        gateway.running.stop()?;
    }
    nginx.running.stop()?;
    Ok(raw)
}

/// Measures each phase on all targets in turns, and reverses their order every time, so that a slow minute affects all.
async fn rounds(targets: &mut [Target], scale: &Scale, raw: &mut BTreeMap<&'static str, Raw>) -> Result<()> {
    let turns = (1..=scale.n_rounds).flat_map(|round| {
        let slices = |phase| (0..scale.n_slices(phase)).map(move |_| phase);
        Phase::ALL.into_iter().flat_map(slices).map(move |phase| (round, phase))
    });
    for (round, phase) in turns {
        for target in targets.iter().filter(|it| phase == Phase::Latency || it.pid.is_some()) {
            writeln!(stderr(), "round {round}/{}: {} of {}", scale.n_rounds, phase.name(), target.name)?;
            let sample = phases::measure(phase, target, scale).await?;
            raw.entry(target.name).or_default().phases.entry(phase.name()).or_default().push(sample);
        }
        targets.reverse();
    }
    Ok(())
}

/// Fails the run if too many answers were wrong: that makes the figures worthless. The figures are written before.
fn check_errors(raw: &BTreeMap<&str, Raw>) -> Result<()> {
    for (name, raw) in raw {
        for (phase, sample) in
            raw.phases.iter().flat_map(|(phase, all)| all.iter().map(move |it| (phase, it)))
        {
            let seen = &sample.outcome;
            if seen.errors as f64 > MAX_ERROR_SHARE * seen.requests as f64 {
                let (n, first) = (seen.errors, seen.first_error.as_deref().unwrap_or("none"));
                bail!("{phase} of {name}: {n} errors to {} requests; the first: {first}", seen.requests);
            }
        }
    }
    Ok(())
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// This program, started again as the mock engine.
pub(crate) struct Mock {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Mock {
    pub(crate) fn start(placement: Placement) -> Result<Self> {
        let program = std::env::current_exe().context("where is this program")?;
        let mut command = placement.command(LOAD_CORE, &program);
        let mut child =
            command.arg("mock").stdout(Stdio::piped()).spawn().context("cannot start the mock engine")?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let addr = line.trim().parse().with_context(|| format!("the mock engine said `{}`", line.trim()))?;
        Ok(Self { child, addr })
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // The mock has no state that needs a graceful end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
