//! Measures whether memory stays flat: puts a mixed load on one gateway for an hour and reads its resident memory
//! meanwhile.
//!
//! The load resembles a normal day: answers on kept connections, streams that end and streams that their clients leave,
//! engines that refuse or cut connections, keys and models that do not exist, and people who read usage, make keys and
//! sign in. Memory that grows per request shows as a slope; memory that an engine or the allocator keeps shows in the
//! first minutes.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{Write as _, stdout},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    child::{Placement, Running, free_addresses},
    compare::Mock,
    gateway::{self, Launch},
    http_client::Call,
    load::{self, Pace, Window},
    procfs,
    shot::{Ask, Connection, Shot},
    stats::median,
};

/// Share of the requests that are plain answers on kept connections.
const PLAIN_PART: f64 = 0.6;
/// Number of requests in a round. The requests that are not plain are sent in rounds.
const ROUND: u64 = 10;
const SAMPLE_EVERY: Duration = Duration::from_secs(2);
/// Number of samples that make one figure, which are those of a minute.
const SAMPLES_PER_MINUTE: usize = 30;
/// Streams of this load. They end after 0.4 s, unless their clients leave.
const STREAM: Ask = Ask::Stream { n_chunks: 20, interval: Duration::from_millis(20) };

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The gateway's binary.
    #[arg(long)]
    gantry: PathBuf,
    /// How long to load, in minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Minutes at the beginning that do not count.
    #[arg(long, default_value_t = 10)]
    settle: u64,
    /// Requests per second.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// An empty database of the gateway's own, `postgres://…`; without it SQLite.
    #[arg(long)]
    database_url: Option<String>,
    /// Where the figures go; the directory is created.
    #[arg(long, default_value = "bench/results/soak.json")]
    out: PathBuf,
}

/// Number of answers by kind of request and by how it ended.
type Ends = BTreeMap<&'static str, BTreeMap<String, u64>>;

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    database: &'static str,
    rate_per_s: f64,
    minutes: u64,
    settle_minutes: u64,
    /// Median of each minute, MiB.
    rss_mib: Vec<f64>,
    /// Lowest median of the minutes that count.
    lowest_mib: f64,
    highest_mib: f64,
    /// Slope of the straight line through the minutes that count (least squares).
    slope_mib_per_hour: f64,
    plain_answers: u64,
    plain_errors: u64,
    /// Number of open file descriptors at the end.
    descriptors: usize,
    ends: Ends,
}

/// Runs the load and writes the figures.
pub(crate) async fn run(options: Options) -> Result<()> {
    ensure!(
        options.minutes > options.settle,
        "the load has to last longer than the minutes that do not count"
    );
    // Processes are not bound to cores: this runs for an hour, and the machine may do other work.
    let placement = Placement { is_pinned: false, is_realtime: false };
    let dir = tempfile::tempdir().context("no temporary directory")?;
    let mock = Mock::start(placement)?;
    let mut launch = Launch::prepare(&options.gantry, dir.path(), placement)?;
    launch.database_url.clone_from(&options.database_url);
    let limits = json!({ "name": "limited", "scopes": "chat", "rpm_limit": 1_000_000_000 });
    let (mut process, [key, limited]) = gateway::start_with_keys(&launch, mock.addr, limits).await?;
    let people = Arc::new(People::prepare(&launch, key.clone(), limited).await?);

    let mut cutting = JoinSet::new();
    cutting.spawn(cut_connections(people.register_cutting().await?));

    let lasts = Duration::from_secs(options.minutes * 60);
    let window = Window { warm_up: Duration::ZERO, measured: lasts, drain: Duration::from_secs(20) };
    let plain = load::run(
        Shot::new(launch.addr, &key, Ask::Unary { body_bytes: 2_000 }),
        Pace::Open { rate_per_s: options.rate * PLAIN_PART },
        window,
        || Ok(()),
    );
    let others = others(Arc::clone(&people), options.rate * (1.0 - PLAIN_PART), lasts);
    let samples = sample_memory(&mut process, lasts);
    let (plain, (), rss_mib) = tokio::try_join!(plain, others, samples)?;
    let descriptors = fs::read_dir(format!("/proc/{}/fd", process.pid()))?.count();
    process.stop()?;

    let counted = rss_mib.get(options.settle as usize..).unwrap_or_default();
    ensure!(counted.len() > 1, "too few minutes were seen");
    let report = Report {
        date: jiff::Timestamp::now().to_string(),
        database: if options.database_url.is_some() { "postgres" } else { "sqlite" },
        rate_per_s: options.rate,
        minutes: options.minutes,
        settle_minutes: options.settle,
        lowest_mib: counted.iter().copied().fold(f64::INFINITY, f64::min),
        highest_mib: counted.iter().copied().fold(0.0, f64::max),
        slope_mib_per_hour: slope(counted) * 60.0,
        rss_mib,
        plain_answers: plain.0.requests,
        plain_errors: plain.0.errors,
        descriptors,
        ends: people.ends.lock().clone(),
    };
    if let Some(dir) = options.out.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    }
    fs::write(&options.out, serde_json::to_string_pretty(&report)? + "\n")
        .with_context(|| format!("cannot write `{}`", options.out.display()))?;
    write!(stdout(), "{}", summary(&report))?;
    Ok(writeln!(stdout(), "written to {}", options.out.display())?)
}

/// Reads the process's resident memory until the load ends. Returns the median of each minute, in MiB.
async fn sample_memory(process: &mut Running, lasts: Duration) -> Result<Vec<f64>> {
    let mut rss_mib = Vec::new();
    let mut minute = Vec::new();
    let began = Instant::now();
    while began.elapsed() < lasts {
        sleep_until(Instant::now() + SAMPLE_EVERY).await;
        process.check()?;
        minute.push(procfs::rss_kib(process.pid())? as f64 / 1024.0);
        if minute.len() == SAMPLES_PER_MINUTE {
            rss_mib.extend(median(std::mem::take(&mut minute)));
            let last = rss_mib.last().copied().unwrap_or_default();
            writeln!(stdout(), "minute {:>3}: {last:.1} MiB", rss_mib.len())?;
        }
    }
    Ok(rss_mib)
}

/// Returns the rise of the straight line through equally spaced values from one to the next (least squares).
fn slope(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
    let weights = (0..values.len()).map(|at| at as f64 - middle);
    let (over, under) = weights.zip(values).fold((0.0, 0.0), |(over, under), (weight, value)| {
        (weight.mul_add(value - mean, over), weight.mul_add(weight, under))
    });
    over / under
}

fn summary(report: &Report) -> String {
    let mut text = String::new();
    for (what, ends) in &report.ends {
        let ends: Vec<String> = ends.iter().map(|(end, n)| format!("{end} × {n}")).collect();
        // Writing to a string can't fail.
        let _ = writeln!(text, "{what:<16} {}", ends.join(", "));
    }
    let _ = writeln!(text, "{:<16} 200 × {}, errors {}", "plain", report.plain_answers, report.plain_errors);
    let half = (report.highest_mib - report.lowest_mib) / 2.0;
    let verdict = if half <= 2.0 { "flat" } else { "NOT flat" };
    let _ = writeln!(
        text,
        "after minute {}: {:.1} to {:.1} MiB (± {half:.1}; goal ± 2: {verdict}), {:+.1} MiB per hour; {} descriptors at the end",
        report.settle_minutes,
        report.lowest_mib,
        report.highest_mib,
        report.slope_mib_per_hour,
        report.descriptors,
    );
    text
}

/// Accepts connections, reads a request from each, and closes them without an answer.
async fn cut_connections(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut buffer = [0; 4096];
        // It is fine if the other side closes the connection.
        let _ = stream.read(&mut buffer).await;
    }
}

/// Clients that send the requests that are not plain.
struct People {
    gateway: SocketAddr,
    launch: Launch,
    key: String,
    limited: String,
    session: Mutex<String>,
    ends: Mutex<Ends>,
}

impl People {
    /// Registers an engine at a port on which nothing listens.
    async fn prepare(launch: &Launch, key: String, limited: String) -> Result<Self> {
        let session = launch.login().await?;
        let [nobody] = free_addresses()?;
        let people = Self {
            gateway: launch.addr,
            launch: launch.clone(),
            key,
            limited,
            session: Mutex::new(session),
            ends: Mutex::default(),
        };
        people.register("dead", nobody).await?;
        Ok(people)
    }

    async fn register_cutting(&self) -> Result<TcpListener> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        self.register("cutting", listener.local_addr()?).await?;
        Ok(listener)
    }

    async fn register(&self, name: &str, engine: SocketAddr) -> Result<()> {
        let route = json!({ "served_name": name, "url": format!("http://{engine}"), "task": "generate" });
        let session = self.session();
        let call = Call::post(self.gateway, "/admin/models/registry", route);
        Call { cookie: Some(&session), ..call }.expect_success().await.map(|_| ())
    }

    fn session(&self) -> String {
        self.session.lock().clone()
    }

    fn ended(&self, what: &'static str, how: String) {
        let mut ends = self.ends.lock();
        *ends.entry(what).or_default().entry(how).or_default() += 1;
    }

    /// Sends the `n`th request.
    async fn send(&self, n: u64) {
        let (what, done) = match n % ROUND {
            0..=2 => ("stream", self.stream(false).await),
            3..=5 => ("stream left", self.stream(true).await),
            6 => ("dead engine", self.chat("dead", &self.key).await),
            7 => ("cutting engine", self.chat("cutting", &self.limited).await),
            8 if n % (2 * ROUND) == 8 => ("unknown model", self.chat("nobody", &self.key).await),
            8 => ("unknown key", self.chat("m", "sk-no-such-key").await),
            _ => self.administer(n / ROUND).await,
        };
        // The text that the error quotes from the answer is cut: with the ids in it, no two errors would be the same.
        let why =
            |error: anyhow::Error| format!("{error:#}").split('{').next().unwrap_or_default().to_owned();
        self.ended(what, done.unwrap_or_else(why));
    }

    async fn stream(&self, leaves: bool) -> Result<String> {
        let shot = Shot::new(self.gateway, &self.key, STREAM);
        let mut connection = Connection::open(&shot).await?;
        if leaves {
            connection.open_stream(&shot).await?;
            return Ok("left".to_owned());
        }
        connection.exchange(&shot, |_| ()).await.map(|_| "200".to_owned())
    }

    async fn chat(&self, model: &str, key: &str) -> Result<String> {
        let body =
            json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 8 });
        let call = Call::post(self.gateway, "/v1/chat/completions", body);
        let answer = Call { bearer: Some(key), ..call }.send().await?;
        Ok(answer.status.as_str().to_owned())
    }

    /// Does one of the things that people do with the admin API, in turns.
    async fn administer(&self, n: u64) -> (&'static str, Result<String>) {
        let pages = [
            ("usage list", "/admin/usage?limit=50"),
            ("usage sums", "/admin/usage/aggregate?group_by=model"),
            ("models", "/admin/models"),
            ("registry", "/admin/models/registry"),
            ("audit", "/admin/audit?limit=50"),
            ("status", "/readyz"),
        ];
        match n % 8 {
            6 => ("key made, ended", self.make_and_end_key().await),
            // A user may sign in 400 times an hour.
            7 if n % 128 == 7 => ("sign-in", self.sign_in().await),
            7 => ("who am I", self.get("/auth/me").await),
            at => {
                let (what, path) = pages[at as usize % pages.len()];
                (what, self.get(path).await)
            }
        }
    }

    async fn get(&self, path: &str) -> Result<String> {
        let session = self.session();
        let call = Call { cookie: Some(&session), ..Call::get(self.gateway, path) };
        Ok(call.send().await?.status.as_str().to_owned())
    }

    async fn make_and_end_key(&self) -> Result<String> {
        let session = self.session();
        let wanted = json!({ "name": "short-lived", "scopes": "chat" });
        let call = Call { cookie: Some(&session), ..Call::post(self.gateway, "/admin/keys", wanted) };
        let made = call.expect_success().await?.json()?;
        let path = format!("/admin/keys/{}", made["id"]);
        let call =
            Call { cookie: Some(&session), method: http::Method::DELETE, ..Call::get(self.gateway, &path) };
        Ok(call.send().await?.status.as_str().to_owned())
    }

    async fn sign_in(&self) -> Result<String> {
        let fresh = self.launch.login().await?;
        *self.session.lock() = fresh;
        Ok("200".to_owned())
    }
}

async fn others(people: Arc<People>, rate_per_s: f64, lasts: Duration) -> Result<()> {
    let mut clock = interval(Duration::from_secs_f64(1.0 / rate_per_s));
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (began, mut under_way, mut n) = (Instant::now(), JoinSet::new(), 0);
    while began.elapsed() < lasts {
        clock.tick().await;
        let people = Arc::clone(&people);
        under_way.spawn(async move { people.send(n).await });
        n += 1;
        while under_way.try_join_next().is_some() {}
    }
    under_way.join_all().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_that_of_the_line() {
        assert!((slope(&[1.0, 3.0, 5.0, 7.0]) - 2.0).abs() < 1e-12);
        assert!(slope(&[4.0, 5.0, 4.0, 5.0, 4.0]).abs() < 1e-12);
    }
}
