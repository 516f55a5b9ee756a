//! Measures packages: exports and their verification against `cp` and `sha256sum` on the same files in the same run, what
//! an export costs the data plane meanwhile, and what is lost if the gateway dies in the middle of one.
//!
//! All that is compared runs in turn, and the median of the rounds counts. Weights are read from the disk and not from the
//! page cache: whatever reads them next has them dropped from it before.

mod beside;
mod kills;
mod many;
mod rig;
mod rounds;
mod tools;
mod weights;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use self::{beside::Beside, kills::Kill, many::Many, rig::Rig, rounds::Round, weights::Weights};
use crate::{
    figure::{self, Figure},
    procfs,
    stats::{median, ratio},
};

/// Size of the weights of each kind on a machine with room enough.
const GIB: f64 = 10.0;
const BYTES_PER_GIB: f64 = 1_073_741_824.0;
/// Free space that is needed, as a multiple of the random weights: they, a copy or a package of them, and room.
const ROOM: f64 = 3.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The gateway's binary.
    #[arg(long)]
    gantry: PathBuf,
    /// A folder for weights and packages. What is measured is its file system.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// GiB of random weights; 10 if it is left out, or what a third of the free disk holds.
    #[arg(long)]
    gib: Option<f64>,
    /// GiB of sparse weights, which take nearly no disk; as many as random ones if it is left out.
    #[arg(long)]
    sparse_gib: Option<f64>,
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Number of small files of a package whose memory is measured.
    #[arg(long, default_value_t = 100_000)]
    files: u32,
    /// What the example `dump_speed` of the store printed, a line for each run.
    #[arg(long)]
    database: Option<PathBuf>,
    /// What a reader of the figures should know: how the gateway was built, what else ran.
    #[arg(long, default_value = "")]
    note: String,
    /// Where the figures go, as JSON.
    #[arg(long, default_value = "bench/results/packages.json")]
    out: PathBuf,
}

/// What `dump_speed` prints: seconds of the parts of a dump and a restore, ours and those of the database's tools.
#[derive(Debug, Serialize, Deserialize)]
struct Database {
    #[serde(rename = "database")]
    kind: String,
    usage_rows: u64,
    bytes: u64,
    dump: f64,
    check: f64,
    load: f64,
    swap: f64,
    their_dump: f64,
    their_restore: f64,
    ratio: f64,
    /// The largest memory of all that, our database client's included.
    peak_mib: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    note: String,
    cores: usize,
    kernel: String,
    cpu: String,
    /// Other programs may have used the machine too.
    load_average: [String; 2],
    versions: [String; 2],
    random_gib: f64,
    sparse_gib: f64,
    figures: Vec<Figure>,
    rounds: Vec<Round>,
    beside: Vec<Beside>,
    kills: Vec<Kill>,
    many: Many,
    database: Vec<Database>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let database = read_database(&options)?;
    let load_before = load_average();
    fs::create_dir_all(&options.dir)?;
    let free = free_bytes(&options)?;
    let gib = options.gib.unwrap_or_else(|| GIB.min(free / ROOM / BYTES_PER_GIB));
    let sparse_gib = options.sparse_gib.unwrap_or(gib);
    ensure!(gib * BYTES_PER_GIB * ROOM <= free, "{gib} GiB of weights need three times as much free space");
    let dir = tempfile::Builder::new().prefix("bench-packages.").tempdir_in(&options.dir)?;
    let dir_path = dir.path().canonicalize()?;

    let mut rig = Rig::start(&options.gantry, &dir_path).await?;
    let weights = Weights::make(&rig.models(), [gib, sparse_gib].map(|it| (it * BYTES_PER_GIB) as u64))?;
    rig.make_model().await?;
    let mut rounds = Vec::new();
    for n in 0..options.rounds {
        rounds.push(Round::run(&mut rig, &weights, n).await?);
        crate::say(&format!("round {}: {:?}", n + 1, rounds.last()))?;
    }
    let mut beside = Vec::new();
    for n in 0..options.rounds {
        beside.push(Beside::run(&mut rig, &weights, n).await?);
        crate::say(&format!("load {}: {:?}", n + 1, beside.last()))?;
    }
    let mut kills = Vec::new();
    for n in 0..options.rounds {
        let part = f64::from(n + 1) / f64::from(options.rounds + 1);
        kills.push(Kill::run(&mut rig, &weights, &rounds, n, part).await?);
        crate::say(&format!("kill {}: {:?}", n + 1, kills.last()))?;
    }
    fs::remove_dir_all(&weights.dir)?;
    let many = Many::run(&mut rig, options.files).await?;
    crate::say(&format!("many: {many:?}"))?;
    rig.stop()?;

    let report = Report {
        date: jiff::Timestamp::now().to_string(),
        note: options.note.clone(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: procfs::kernel(),
        cpu: procfs::cpu_model(),
        load_average: [load_before, load_average()],
        versions: [
            crate::child::version("sha256sum", "--version"),
            crate::child::version("openssl", "version"),
        ],
        random_gib: gib,
        sparse_gib,
        figures: figures(&rounds, &beside, &kills, &many, &database)?,
        rounds,
        beside,
        kills,
        many,
        database,
    };
    write(&report, &options.out)
}

fn write(report: &Report, out: &Path) -> Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(out, serde_json::to_string_pretty(report)? + "\n")?;
    crate::say(figure::table(&report.figures).trim_end())?;
    crate::say(&format!("written to {}", out.display()))
}

fn read_database(options: &Options) -> Result<Vec<Database>> {
    let Some(path) = &options.database else { return Ok(Vec::new()) };
    let text = fs::read_to_string(path).context("cannot read what `dump_speed` printed")?;
    text.lines().map(|it| serde_json::from_str(it).context("not what `dump_speed` prints")).collect()
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

fn free_bytes(options: &Options) -> Result<f64> {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(&options.dir).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().nth(1).and_then(|it| it.trim().parse().ok()).context("`df` does not say what is free")
}

fn figures(
    rounds: &[Round],
    beside: &[Beside],
    kills: &[Kill],
    many: &Many,
    database: &[Database],
) -> Result<Vec<Figure>> {
    let of = |get: &dyn Fn(&Round) -> f64| median(rounds.iter().map(get)).context("nothing was measured");
    let largest = |it: &mut dyn Iterator<Item = f64>| it.fold(0.0, f64::max);
    let mut figures = vec![
        Figure::at_least(
            "export, speed as a share of cp + sha256sum",
            of(&|it| (it.cp_s + it.sha256sum_s) / it.export_s)?,
            "",
            0.7,
        ),
        Figure::at_least(
            "verify, speed as a share of sha256sum on all cores",
            of(&|it| it.sha256sum_all_s / it.verify_s)?,
            "",
            0.8,
        ),
        Figure::at_most("gantry package show", of(&|it| it.show_s)?, "s", 2.0),
        Figure::at_most("dry run of an import", of(&|it| it.dry_run_s)?, "s", 2.0),
        Figure::at_most(
            "gateway's memory during an export, over that before",
            largest(&mut rounds.iter().map(|it| it.export_extra_mib)),
            "MiB",
            64.0,
        ),
        Figure::at_most(
            "memory of gantry package verify",
            largest(&mut rounds.iter().map(|it| it.verify_peak_mib)),
            "MiB",
            64.0,
        ),
        Figure::at_most("export of a difference, one setting changed", of(&|it| it.delta_s)?, "s", 10.0),
        Figure::at_most("its size", of(&|it| it.delta_mib)?, "MiB", 1.0),
        Figure::at_most("cancel of an export", largest(&mut beside.iter().map(|it| it.cancel_s)), "s", 2.0),
    ];
    figures.extend(of_clients(beside)?);
    figures.extend(after_kills(kills));
    figures.extend(against_openssl(rounds));
    figures.extend(of_many(many));
    figures.extend(database.iter().flat_map(|it| {
        let what = format!("{}: dump, check and restore of {} usage rows", it.kind, it.usage_rows);
        [
            Figure::at_most(&format!("{what}, over its own tools"), it.ratio, "", 2.0),
            Figure::at_most(&format!("{what}, memory"), it.peak_mib, "MiB", 64.0),
        ]
    }));
    Ok(figures)
}

/// What clients of the data plane wait for.
fn of_clients(beside: &[Beside]) -> Result<[Figure; 2]> {
    let of = |other: usize| {
        median(beside.iter().map(|it| it.p99_us[1] / it.p99_us[other])).context("there was no load")
    };
    Ok([
        Figure::at_most("data plane's p99 during an export, over that without", of(0)?, "", 2.0),
        // Writes to a disk cost clients something on most machines, whatever program writes.
        Figure::at_most("the same, over that beside a plain cp", of(2)?, "", 2.0),
    ])
}

/// What is done twice because the gateway was killed.
fn after_kills(kills: &[Kill]) -> [Figure; 2] {
    let of = |what: &str, get: fn(&Kill) -> f64| {
        let largest = kills.iter().map(get).fold(0.0, f64::max);
        Figure::at_most(what, largest, "MiB", 64.0)
    };
    [
        of("written twice after a kill", |it| it.written_twice_mib),
        of("read twice after a kill", |it| it.read_twice_mib),
    ]
}

/// Memory for a package with very many files.
fn of_many(many: &Many) -> [Figure; 6] {
    let of = |what: &str, mib: f64| Figure::at_most(&format!("very many files: {what}"), mib, "MiB", 64.0);
    [
        of("gateway's memory during an export, over that before", many.export_extra_mib),
        of("the same during a second export into the folder", many.export_again_extra_mib),
        of("memory of gantry package verify", many.verify_peak_mib),
        of("memory of gantry package show", many.show_peak_mib),
        of("gateway's memory during an import, over that before", many.import_extra_mib),
        of("gateway's memory during a restore, over that before", many.restore_extra_mib),
    ]
}

/// `sha256sum` of older systems does not use the processor's instructions for SHA-256; OpenSSL does.
fn against_openssl(rounds: &[Round]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let openssl = |get: &dyn Fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(get));
    if let Some(share) = openssl(&|it| ratio(Some(it.cp_s + it.openssl_s?), Some(it.export_s))) {
        figures.push(Figure::at_least("export, as a share of cp + openssl dgst", share, "", 0.7));
    }
    if let Some(share) = openssl(&|it| ratio(it.openssl_all_s, Some(it.verify_s))) {
        figures.push(Figure::at_least("verify, as a share of openssl dgst on all cores", share, "", 0.8));
    }
    figures
}
