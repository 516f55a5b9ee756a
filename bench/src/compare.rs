//! The comparison: starts the mock, the reference proxies and the gateway, measures them in turns, and writes the results.

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
    gateway::{self, Launch},
    haproxy, instructions, nginx,
    phases::{self, Phase, Sample, Scale, Target},
    procfs,
    report::{self, DIRECT, GATEWAY, HAPROXY, Machine, NGINX, Ratios, Raw, Report},
};

/// Smallest limit of open files: sockets of 1,000 streams in the busiest process, with some room.
const MIN_OPEN_FILES: u64 = 4096;

/// Largest share of the CPUs that the host may take in a turn that counts.
const MOST_STOLEN: f64 = 0.02;

/// Largest share of requests that may fail. With more errors the run measured something else.
const MAX_ERROR_SHARE: f64 = 0.001;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Few and short turns, within three minutes; the figures are rougher.
    #[arg(long)]
    quick: bool,
    /// The gateway's binary; without it only the other proxies are measured.
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
    versions.insert(HAPROXY, version("haproxy", "-v"));
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
    let mut raw = BTreeMap::from([(DIRECT, Raw::default())]);
    let mut targets = vec![Target { name: DIRECT, addr: mock.addr, key: key.clone(), pid: None }];
    let mut running = Vec::new();
    let haproxy = haproxy::start(dir.path(), placement, mock.addr, &key).await?;
    if haproxy.is_none() {
        notes.push("HAProxy is not installed: not measured".to_owned());
    }
    let nginx = nginx::start(dir.path(), placement, mock.addr, &key).await?;
    for (name, proxy) in [(NGINX, Some(nginx)), (HAPROXY, haproxy)] {
        let Some(proxy) = proxy else { continue };
        let pid = proxy.running.pid();
        let idle_rss_mib = Some(mib(procfs::rss_kib(pid)?));
        raw.insert(name, Raw { ready_ms: Some(proxy.ready_ms), idle_rss_mib, ..Raw::default() });
        targets.push(Target { name, addr: proxy.addr, key: key.clone(), pid: Some(pid) });
        running.push(proxy.running);
    }
    let mut launch = None;
    if let Some(binary) = binary {
        let gateway = gateway::start(binary, dir.path(), placement, mock.addr).await?;
        let (pid, idle_rss_mib) = (gateway.running.pid(), Some(mib(gateway.idle_rss_kib)));
        raw.insert(GATEWAY, Raw { ready_ms: Some(gateway.ready_ms), idle_rss_mib, ..Raw::default() });
        let (addr, token) = (gateway.addr, gateway.key.clone());
        targets.push(Target { name: GATEWAY, addr, key: gateway.key, pid: Some(pid) });
        running.push(gateway.running);
        launch = Some((gateway.launch, token));
    } else {
        notes.push("no gateway given: the other proxies alone".to_owned());
    }
    for target in &targets {
        let (Some(pid), name) = (target.pid, target.name) else { continue };
        let entry = raw.entry(name).or_default();
        entry.idle_cpu_percent = Some(phases::idle_cpu_percent(pid, scale).await?);
        let what = || format!("memory of open streams of {name}");
        entry.kib_per_stream = phases::kib_per_stream(target, scale).await.with_context(what)?;
    }
    for phase in Phase::ALL {
        let turns = turns(phase, &mut targets, scale, notes).await?;
        for (name, sample) in turns.into_iter().flatten() {
            raw.entry(name).or_default().phases.entry(phase.name()).or_default().push(sample);
        }
    }
    for process in running {
        process.stop()?;
    }
    if scale.counts {
        writeln!(stderr(), "counting instructions")?;
        let launch = launch.as_ref().map(|(launch, key)| (launch, key.as_str()));
        count(dir.path(), placement, (mock.addr, &key), launch, (&mut raw, notes)).await?;
    }
    Ok(raw)
}

/// Counts the instructions of nginx and of the gateway.
async fn count(
    dir: &Path,
    placement: Placement,
    (engine, key): (SocketAddr, &str),
    launch: Option<(&Launch, &str)>,
    (raw, notes): (&mut BTreeMap<&'static str, Raw>, &mut Vec<String>),
) -> Result<()> {
    if !instructions::can_count() {
        notes.push("Valgrind is not installed: no instructions counted".to_owned());
        return Ok(());
    }
    let of_nginx = instructions::of_nginx(dir, placement, engine, key).await?;
    raw.entry(NGINX).or_default().instructions = Some(of_nginx);
    if let Some((launch, key)) = launch {
        raw.entry(GATEWAY).or_default().instructions = Some(instructions::of_gateway(launch, key).await?);
    }
    Ok(())
}

/// The samples of all targets that were measured right after each other.
type Turn = Vec<(&'static str, Sample)>;

/// Measures a phase on all targets in turns, and reverses their order every time, so that a slow minute affects all. A turn in
/// which the host took much of the CPUs is repeated, as often as there are turns.
async fn turns(
    phase: Phase,
    targets: &mut [Target],
    scale: &Scale,
    notes: &mut Vec<String>,
) -> Result<Vec<Turn>> {
    let wanted = scale.n_turns as usize;
    let mut turns: Vec<Turn> = Vec::new();
    while turns.len() < wanted * 2 && turns.iter().filter(|it| steal(it) <= MOST_STOLEN).count() < wanted {
        let mut turn = Turn::new();
        for target in targets.iter().filter(|it| phase.needs_direct() || it.pid.is_some()) {
            writeln!(stderr(), "{}, turn {}: {}", phase.name(), turns.len() + 1, target.name)?;
            turn.push((target.name, phases::measure(phase, target, scale).await?));
        }
        turns.push(turn);
        targets.reverse();
    }
    turns.sort_by(|a, b| steal(a).total_cmp(&steal(b)));
    let (n_measured, name) = (turns.len(), phase.name());
    turns.truncate(wanted);
    if n_measured > wanted {
        let dropped = n_measured - wanted;
        notes.push(format!("{name}: {dropped} turns are left out in which the host took CPUs away"));
    }
    if let Some(worst) = turns.last().map(steal).filter(|it| *it > MOST_STOLEN) {
        notes.push(format!("{name}: the host took up to {:.1} % of the CPUs in a turn", worst * 100.0));
    }
    Ok(turns)
}

/// Returns the largest share of the CPUs that the host took from a target.
fn steal(turn: &Turn) -> f64 {
    turn.iter().map(|(_, sample)| sample.outcome.steal).fold(0.0, f64::max)
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
