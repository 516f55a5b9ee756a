//! Measures the usage endpoints on many rows: a real gateway on a database that the store's example `usage_fill` made,
//! called over HTTP. Each query is sent once to warm up and then a few times; times are those of whole calls,
//! connection included.

use std::{
    fs,
    io::{Write as _, stdout},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    child::Placement,
    figure::{self, Figure},
    gateway::Launch,
    http_client::Call,
    procfs,
    stats::median,
};

const READY_WITHIN: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(20);
/// Number of calls of each query that count.
const N_CALLS: usize = 7;
/// Number of calls of each query where many queries are sent to find the slowest.
const N_CALLS_OF_MANY: usize = 3;
/// Number of slowest queries that are named.
const N_SLOWEST: usize = 5;
/// Largest time allowed, in milliseconds.
const SUMS_MS: f64 = 200.0;
const PAGE_MS: f64 = 100.0;
const EXPORT_MB_PER_S: f64 = 50.0;
const EXPORT_EXTRA_MIB: f64 = 32.0;
const INSERTS_PER_S: f64 = 20_000.0;
const PERCENTILE_ERROR: f64 = 0.02;
/// Approximate number of rows of the export that is timed.
const EXPORTED_ROWS: u64 = 1_000_000;
/// Number of received bytes after which memory is read again.
const LOOK_EVERY: usize = 4 << 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The gateway's binary.
    #[arg(long)]
    gantry: PathBuf,
    /// A folder with the database at `gantry/data/gantry.db`.
    #[arg(long)]
    dir: PathBuf,
    /// What `usage_fill` printed.
    #[arg(long)]
    filled: PathBuf,
    /// Where the figures go, as JSON.
    #[arg(long)]
    out: PathBuf,
}

/// The facts that `usage_fill` prints about its rows.
#[derive(Debug, Deserialize, Serialize)]
struct Filled {
    rows: u64,
    days: u64,
    rows_per_s: f64,
    /// Rows per second of CPU time, checks of the rows included. Other work on the machine does not affect it.
    rows_per_cpu_s: f64,
    slowest_batch_ms: f64,
    tokens: i64,
    /// p50, p95 and p99 in milliseconds.
    latency: [f64; 3],
    ttft: [f64; 3],
    ttft_samples: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: [String; 2],
    /// Load average when the queries began: other programs may have used the machine too.
    load_average: String,
    filled: Filled,
    figures: Vec<Figure>,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let filled = fs::read_to_string(&options.filled).context("cannot read what was filled in")?;
    let filled: Filled = serde_json::from_str(&filled)?;
    let dir = options.dir.canonicalize().context("cannot find the folder")?;
    let launch = Launch::prepare(&options.gantry, &dir, Placement { is_pinned: false, is_realtime: false })?;
    let mut running = launch.spawn()?;
    Call::get(launch.addr, "/readyz").wait_for_200(&mut running, READY_WITHIN, POLL).await?;
    let cookie = launch.login().await?;
    let client = Asker { launch: &launch, cookie: &cookie, pid: running.pid() };

    let load_average = fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned();
    let mut figures = vec![Figure::at_least("insert, rows", filled.rows_per_s, "rows/s", INSERTS_PER_S)];
    // One day is added because filling took some time.
    let hours = (filled.days + 1) * 24;
    for path in sums(hours) {
        figures.push(client.time(&path, SUMS_MS).await?);
    }
    for path in pages(hours, filled.rows) {
        figures.push(client.time(&path, PAGE_MS).await?);
    }
    figures.push(client.slowest("aggregates, every group, filter and order", groups(hours), SUMS_MS).await?);
    figures.push(client.slowest("pages, every two filters", pairs(hours), PAGE_MS).await?);
    figures.push(client.slowest("pages, three and more filters", crowds(hours), PAGE_MS).await?);
    figures.push(client.slowest("pages, far away", far(hours, filled.rows), PAGE_MS).await?);
    figures.extend(client.check(hours, &filled).await?);
    figures.extend(client.export(&filled).await?);
    running.stop()?;

    let report = Report { machine: [procfs::cpu_model(), procfs::kernel()], load_average, filled, figures };
    fs::write(&options.out, format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    crate::say(figure::table(&report.figures).trim_end())
}

/// Queries for sums of everything.
fn sums(hours: u64) -> Vec<String> {
    [
        "aggregate?group_by=model",
        "aggregate?group_by=key",
        "aggregate?group_by=user",
        "aggregate?group_by=org",
        "aggregate?group_by=user&org_id=3&sort=-total_tokens&limit=5",
        "series?bucket=hour",
        "series?bucket=hour&key_id=7",
        "series?bucket=day",
        "latency?outcome=ok",
        "latency",
        "ttft",
        "ttft?model=acme/model-03-instruct",
    ]
    .map(|it| format!("/admin/usage/{it}{}hours={hours}", if it.contains('?') { '&' } else { '?' }))
    .into()
}

/// Queries for pages of rows: each filter alone, some together, some that match little, and a far page.
fn pages(hours: u64, rows: u64) -> Vec<String> {
    let middle = rows / 2;
    [
        "",
        "&model=acme/model-03-instruct",
        "&model=nothing",
        "&task=embed",
        "&key_id=7",
        "&key_id=199",
        "&user_id=42",
        "&org_id=3",
        "&status=2xx",
        "&status=4xx",
        "&status=504",
        "&outcome=timeout",
        "&outcome=rejected",
        "&status=504&key_id=150",
        "&status=504&model=acme/model-11-instruct&org_id=3",
        "&task=embed&outcome=client_closed&user_id=41",
        &format!("&offset={middle}"),
        &format!("&org_id=3&offset={}", middle / 20),
        "&outcome=timeout&offset=5000",
    ]
    .map(|it| format!("/admin/usage?hours={hours}{it}"))
    .into()
}

/// Values of each filter that match much, little and nothing.
const FILTERS: [(&str, &[&str]); 7] = [
    ("model", &["acme/model-03-instruct", "acme/model-19-instruct", "nothing"]),
    ("task", &["generate", "embed"]),
    ("key_id", &["1", "150", "200"]),
    ("user_id", &["2", "42", "100"]),
    ("org_id", &["1", "3", "10"]),
    ("status", &["2xx", "4xx", "5xx", "404", "504"]),
    ("outcome", &["ok", "client_closed", "upstream_error", "timeout"]),
];

fn page(hours: u64, filters: &[(&str, &str)]) -> String {
    let filters: Vec<_> = filters.iter().map(|(name, value)| format!("&{name}={value}")).collect();
    format!("/admin/usage?hours={hours}{}", filters.concat())
}

/// Queries with each pair of filters and each of their values.
fn pairs(hours: u64) -> Vec<String> {
    let mut paths = Vec::new();
    for (n, (first, values)) in FILTERS.iter().enumerate() {
        for (second, others) in &FILTERS[n + 1..] {
            let both = values.iter().flat_map(|it| others.iter().map(move |other| (it, other)));
            paths.extend(both.map(|(it, other)| page(hours, &[(first, it), (second, other)])));
        }
    }
    paths
}

/// Queries with three or more filters: every set of filters, with values in turn, over the whole time and over a part
/// of it.
fn crowds(hours: u64) -> Vec<String> {
    let sets = (0..1_u32 << FILTERS.len()).filter(|it| it.count_ones() >= 3);
    let path = |(turn, set): (usize, u32)| {
        let there = FILTERS.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1);
        let filters: Vec<_> =
            there.map(|(n, (name, values))| (*name, values[(turn + n) % values.len()])).collect();
        page(if turn.is_multiple_of(2) { hours } else { hours / 7 }, &filters)
    };
    sets.enumerate().map(path).collect()
}

/// Queries with one filter, half way down its list.
fn far(hours: u64, rows: u64) -> Vec<String> {
    let part = [rows / 50, 3 * rows / 10, rows / 300, rows / 300, rows / 20, rows / 2000, rows / 3000];
    let each = FILTERS.iter().zip(part).flat_map(|((name, values), offset)| {
        values.iter().map(move |value| format!("{}&offset={offset}", page(hours, &[(name, value)])))
    });
    each.collect()
}

/// Queries for sums by everything in every order, with one filter each.
fn groups(hours: u64) -> Vec<String> {
    let columns =
        ["requests", "errors", "prompt_tokens", "completion_tokens", "total_tokens", "p50_ms", "p95_ms"];
    let mut paths = Vec::new();
    for by in ["model", "key", "user", "org"] {
        for column in columns {
            paths.push(format!("/admin/usage/aggregate?group_by={by}&sort=-{column}&hours={hours}"));
        }
        for (name, values) in FILTERS {
            for value in values {
                paths.push(format!("/admin/usage/aggregate?group_by={by}&{name}={value}&hours={hours}"));
            }
        }
    }
    paths
}

struct Asker<'a> {
    launch: &'a Launch,
    cookie: &'a str,
    pid: u32,
}

impl Asker<'_> {
    fn call<'a>(&'a self, path: &'a str) -> Call<'a> {
        Call { cookie: Some(self.cookie), ..Call::get(self.launch.addr, path) }
    }

    async fn time(&self, path: &str, must: f64) -> Result<Figure> {
        self.time_calls(path, must, N_CALLS).await
    }

    /// Sends all queries. The figure is that of the slowest one, and a few of the slowest are printed.
    async fn slowest(&self, what: &str, paths: Vec<String>, must: f64) -> Result<Figure> {
        let mut all = Vec::new();
        for path in &paths {
            all.push(self.time_calls(path, must, N_CALLS_OF_MANY).await?);
        }
        all.sort_by(|a, b| b.value.total_cmp(&a.value));
        let mut out = stdout();
        writeln!(out, "{what}: {} of them, the slowest", all.len())?;
        for it in all.iter().take(N_SLOWEST) {
            writeln!(out, "  {:>7.1} ms (max {:.1})  {}", it.value, it.max.unwrap_or(it.value), it.what)?;
        }
        let n = all.len();
        let first = all.into_iter().next().context("nothing was asked")?;
        Ok(Figure { what: format!("{what}: the slowest of {n}, {}", first.what), ..first })
    }

    async fn time_calls(&self, path: &str, must: f64, n_calls: usize) -> Result<Figure> {
        let call = self.call(path);
        call.expect_success().await?;
        let mut times = Vec::new();
        for _ in 0..n_calls {
            let start = Instant::now();
            call.expect_success().await?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let max = times.iter().copied().fold(0.0, f64::max);
        let median = median(times).context("nothing was measured")?;
        Ok(Figure { max: Some(max), ..Figure::at_most(path, median, "ms", must) })
    }

    /// Checks whether the answers are right.
    async fn check(&self, hours: u64, filled: &Filled) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (name, exact, samples) in
            [("latency", filled.latency, filled.rows), ("ttft", filled.ttft, filled.ttft_samples)]
        {
            let path = format!("/admin/usage/{name}?hours={hours}");
            let answer = self.call(&path).expect_success().await?.json()?;
            for (percentile, exact) in ["p50_ms", "p95_ms", "p99_ms"].into_iter().zip(exact) {
                let found = answer[percentile].as_f64().context("no percentile")?;
                let error = (found - exact).abs() / exact.max(1.0);
                let what = format!("{name} {percentile}, error");
                figures.push(Figure::at_most(&what, error, "", PERCENTILE_ERROR));
            }
            let missing = (answer["samples"].as_f64().context("no samples")? - samples as f64).abs();
            figures.push(Figure::at_most(&format!("{name} samples, off by"), missing, "", 0.0));
        }
        let path = format!("/admin/usage/aggregate?hours={hours}");
        let groups = self.call(&path).expect_success().await?.json()?;
        let sum = |field: &str| -> i64 {
            groups.as_array().into_iter().flatten().filter_map(|it: &Value| it[field].as_i64()).sum()
        };
        let off = (sum("requests") - filled.rows as i64).abs() + (sum("total_tokens") - filled.tokens).abs();
        figures.push(Figure::at_most("aggregate, off by", off as f64, "", 0.0));
        Ok(figures)
    }

    async fn export(&self, filled: &Filled) -> Result<Vec<Figure>> {
        let hours = (EXPORTED_ROWS * filled.days * 24).div_ceil(filled.rows.max(EXPORTED_ROWS)) + 1;
        let path = format!("/admin/usage/export?hours={hours}");
        let before = procfs::rss_kib(self.pid)?;
        let (mut n_bytes, mut n_lines, mut peak, mut look) = (0_usize, 0_u64, before, LOOK_EVERY);
        let start = Instant::now();
        let call = self.call(&path);
        call.read(|piece| {
            n_bytes += piece.len();
            n_lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            if n_bytes >= look {
                look = n_bytes + LOOK_EVERY;
                peak = peak.max(procfs::rss_kib(self.pid)?);
            }
            Ok(())
        })
        .await?;
        let seconds = start.elapsed().as_secs_f64();
        let (rows, mb) = (n_lines.saturating_sub(1), n_bytes as f64 / 1e6);
        let extra = peak.saturating_sub(before) as f64 / 1024.0;
        Ok(vec![
            Figure::at_least(
                &format!("export of {rows} rows, {mb:.0} MB"),
                mb / seconds,
                "MB/s",
                EXPORT_MB_PER_S,
            ),
            Figure::at_most("export, extra memory", extra, "MiB", EXPORT_EXTRA_MIB),
        ])
    }
}
