//! Measures what it costs to reconcile many models: simulated engines in real containers, and a gateway that gets no
//! requests.
//!
//! Measures the gateway's CPU and wall time for each check of all models; how soon an engine that died is noticed, with
//! the container runtime's events and without; and how soon all models are served again after `kill -9`.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{net::UnixListener, task::JoinSet, time::sleep};

use crate::{
    child::{Running, free_addresses},
    http_client::{Answer, Call},
    procfs, without_events,
};

/// Seconds between two checks of all models, and between two probes of one, as in the gateway's defaults.
const TICK_S: u64 = 15;
const READY_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Longest wait for all engines, which are started at once.
const ALL_RUN_WITHIN: Duration = Duration::from_mins(10);
/// Pause after a start or a command, before the idle gateway is measured.
const SETTLES: Duration = Duration::from_secs(20);
const NOTICED_WITHIN: Duration = Duration::from_mins(1);
const COOKIE: &str = "svc_session";
const IMAGE: &str = "localhost/gantry-engine-sim-vllm:0.32.0";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The gateway's binary.
    #[arg(long)]
    gantry: PathBuf,
    /// Number of models that run.
    #[arg(long, default_value_t = 50)]
    models: usize,
    /// How many of them run when the gateway is killed.
    #[arg(long, default_value_t = 20)]
    restart_models: usize,
    /// Number of checks of all models that are measured.
    #[arg(long, default_value_t = 6)]
    ticks: u32,
    /// Number of engines that are killed with the runtime's events, and again without.
    #[arg(long, default_value_t = 5)]
    engine_kills: usize,
    /// Number of kills of the gateway.
    #[arg(long, default_value_t = 10)]
    gateway_kills: usize,
    /// What a reader of the figures should know: how the gateway was built, what else ran.
    #[arg(long, default_value = "")]
    note: String,
    /// Where the results go.
    #[arg(long, default_value = "bench/results/lifecycle.json")]
    out: PathBuf,
}

/// Median and largest of some times, in milliseconds.
#[derive(Debug, Serialize)]
struct Times {
    n: usize,
    median_ms: f64,
    max_ms: f64,
}

impl Times {
    fn of(times: &mut [f64]) -> Result<Self> {
        times.sort_by(f64::total_cmp);
        let max_ms = *times.last().context("nothing was measured")?;
        let median_ms = times.get(times.len() / 2).copied().unwrap_or(max_ms);
        Ok(Self { n: times.len(), median_ms, max_ms })
    }
}

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    note: String,
    cores: usize,
    kernel: String,
    cpu: String,
    load_average: String,
    models: usize,
    /// CPU time of the gateway's process for each check of all models, with one probe of each, minus that of a gateway
    /// without models.
    cpu_ms_per_tick: f64,
    cpu_ms_per_tick_without_models: f64,
    tick: Times,
    rss_kib: u64,
    noticed_by_events: Times,
    noticed_without_events: Times,
    models_at_kill: usize,
    /// Time from the start of the process to the last model's first answer.
    routes_back: Times,
    containers_started_again: usize,
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut bench = Bench::prepare(&options, dir.path())?;
    let done = bench.measure(&options).await;
    // Containers are removed even after an error.
    bench.clear();
    let report = done?;
    let text = serde_json::to_string_pretty(&report)?;
    if let Some(parent) = options.out.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&options.out, format!("{text}\n"))?;
    crate::say(&text)
}

struct Bench {
    binary: PathBuf,
    dir: PathBuf,
    addr: SocketAddr,
    metrics: SocketAddr,
    password: String,
    gateway: Option<Running>,
    cookie: String,
    key: String,
    ids: Vec<i64>,
}

impl Bench {
    fn prepare(options: &Options, dir: &Path) -> Result<Self> {
        let binary = options.gantry.canonicalize().context("no gateway there")?;
        if docker(&["image", "inspect", IMAGE]).is_err() {
            let made = Command::new(&binary).args(["engine-sim", "image"]).status()?;
            ensure!(made.success(), "the simulator's images could not be made");
        }
        let [addr, metrics] = free_addresses()?;
        Ok(Self {
            binary,
            dir: dir.to_owned(),
            addr,
            metrics,
            password: format!("Bench-{:032x}", rand::random::<u128>()),
            gateway: None,
            cookie: String::new(),
            key: String::new(),
            ids: Vec::new(),
        })
    }

    async fn measure(&mut self, options: &Options) -> Result<Report> {
        self.start(None).await?;
        self.provision().await?;
        let without = self.cpu_per_tick(options.ticks).await?;
        self.run_models(options.models).await?;
        let checks_before = self.check_times().len();
        let with = self.cpu_per_tick(options.ticks).await?;
        let mut ticks = self.check_times().split_off(checks_before);
        let rss_kib = procfs::rss_kib(self.pid()?)?;
        let mut by_events = self.kill_engines(0..options.engine_kills).await?;

        self.stop_gateway()?;
        let proxy = self.dir.join("p");
        let mut tasks = JoinSet::new();
        tasks.spawn(without_events::serve(UnixListener::bind(&proxy)?, docker_socket()?));
        self.start(Some(&proxy)).await?;
        sleep(SETTLES).await;
        let kills = options.engine_kills..2 * options.engine_kills;
        let mut blind = self.kill_engines(kills).await?;
        self.stop_gateway()?;
        tasks.abort_all();

        self.start(None).await?;
        let spare = options.models.saturating_sub(options.restart_models);
        for id in self.ids.drain(..spare).collect::<Vec<_>>() {
            self.command(id, "stop").await?;
            self.becomes(id, "stopped", Instant::now() + NOTICED_WITHIN).await?;
        }
        let (mut back, started_again) = self.kill_gateway(options.gateway_kills).await?;
        Ok(Report {
            date: jiff::Timestamp::now().to_string(),
            note: options.note.clone(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: procfs::kernel(),
            cpu: procfs::cpu_model(),
            load_average: fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned(),
            models: options.models,
            cpu_ms_per_tick: with - without,
            cpu_ms_per_tick_without_models: without,
            tick: Times::of(&mut ticks)?,
            rss_kib,
            noticed_by_events: Times::of(&mut by_events)?,
            noticed_without_events: Times::of(&mut blind)?,
            models_at_kill: self.ids.len(),
            routes_back: Times::of(&mut back)?,
            containers_started_again: started_again,
        })
    }

    fn spawn(&mut self, docker: Option<&Path>) -> Result<()> {
        let mut command = Command::new(&self.binary);
        let host = match docker {
            Some(path) => format!("unix://{}", path.display()),
            None => format!("unix://{}", docker_socket()?.display()),
        };
        command
            .arg("serve")
            .current_dir(&self.dir)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.dir)
            .env("GATEWAY_LISTEN", self.addr.to_string())
            .env("METRICS_LISTEN", self.metrics.to_string())
            .env("DATA_DIR", self.dir.join("data"))
            .env("MODELS_DIR", self.dir.join("models"))
            .env("CONTAINER_HOST", host)
            .env("MODEL_RECONCILE_SEC", TICK_S.to_string())
            .env("HEALTH_POLL_SEC", TICK_S.to_string())
            .env("ADMIN_BOOTSTRAP_USERNAME", "bench")
            .env("ADMIN_BOOTSTRAP_PASSWORD", &self.password)
            .env("RUST_LOG", "warn,gantry_control::reconcile=debug");
        self.gateway = Some(Running::start("gantry", &mut command, &self.dir)?);
        Ok(())
    }

    async fn start(&mut self, docker: Option<&Path>) -> Result<()> {
        self.spawn(docker)?;
        let ready = Call::get(self.addr, "/readyz");
        let gateway = self.gateway.as_mut().context("no gateway")?;
        ready.wait_for_200(gateway, READY_WITHIN, POLL).await
    }

    fn stop_gateway(&mut self) -> Result<()> {
        self.gateway.take().context("no gateway")?.stop()
    }

    fn pid(&self) -> Result<u32> {
        Ok(self.gateway.as_ref().context("no gateway")?.pid())
    }

    async fn admin(&self, path: &str, body: Option<Value>) -> Result<Value> {
        let call = match body {
            Some(body) => Call::post(self.addr, path, body),
            None => Call::get(self.addr, path),
        };
        let call = Call { cookie: Some(&self.cookie), body: call.body.filter(|it| !it.is_null()), ..call };
        call.expect_success().await?.json()
    }

    async fn command(&self, id: i64, what: &str) -> Result<()> {
        self.admin(&format!("/admin/models/{id}/{what}"), Some(Value::Null)).await.map(drop)
    }

    async fn provision(&mut self) -> Result<()> {
        let credentials = json!({ "username": "bench", "password": self.password });
        let login = Call::post(self.addr, "/auth/login", credentials).expect_success().await?;
        let cookies = login.headers.get_all(http::header::SET_COOKIE).iter();
        let mut cookies = cookies.filter_map(|it| it.to_str().ok()?.split(';').next());
        let cookie = cookies.find(|it| it.starts_with(COOKIE)).context("login set no cookie")?;
        cookie.clone_into(&mut self.cookie);
        let made = self.admin("/admin/keys", Some(json!({ "name": "bench", "scopes": "chat" }))).await?;
        made["token"].as_str().context("no token")?.clone_into(&mut self.key);
        Ok(())
    }

    /// Returns the gateway's CPU time for each tick while it gets no requests, in milliseconds.
    async fn cpu_per_tick(&self, ticks: u32) -> Result<f64> {
        sleep(SETTLES).await;
        let before = procfs::cpu(self.pid()?)?;
        sleep(Duration::from_secs(TICK_S) * ticks).await;
        let spent = procfs::cpu(self.pid()?)?.saturating_sub(before);
        Ok(spent.as_secs_f64() * 1e3 / f64::from(ticks))
    }

    /// Returns the milliseconds of each check of all models so far, from the gateway's log.
    fn check_times(&self) -> Vec<f64> {
        let log = fs::read_to_string(self.dir.join("gantry.log")).unwrap_or_default();
        let looks = log.lines().filter(|it| it.contains("looked at all"));
        looks
            .filter_map(|it| {
                let (_, ms) = it.split_once(" ms=")?;
                ms.split_whitespace().next()?.parse().ok()
            })
            .collect()
    }

    async fn run_models(&mut self, n: usize) -> Result<()> {
        // A new database numbers models from 1.
        for id in (1..).take(n) {
            let body = json!({
                "served_name": served_name(id), "engine_type": "vllm", "engine_image": IMAGE,
                "local_path": "simulated", "device": "cpu", "startup_timeout_sec": 600,
            });
            let made = self.admin("/admin/models", Some(body)).await?;
            ensure!(made["id"] == id, "the model's id is {} and not {id}", made["id"]);
            self.ids.push(id);
        }
        // A start answers once its container runs; more than four at a time are no faster.
        for ids in self.ids.chunks(4) {
            try_join_all(ids.iter().map(|id| self.command(*id, "start"))).await?;
        }
        let begun = Instant::now();
        for id in &self.ids {
            self.becomes(*id, "running", begun + ALL_RUN_WITHIN).await?;
        }
        Ok(())
    }

    async fn becomes(&self, id: i64, state: &str, until: Instant) -> Result<()> {
        loop {
            let record = self.admin(&format!("/admin/models/{id}"), None).await?;
            if record["state"] == state {
                return Ok(());
            }
            ensure!(Instant::now() < until, "model {id} is {} ({})", record["state"], record["state_reason"]);
            sleep(POLL).await;
        }
    }

    /// Kills the engines of these models, one after the other, and starts them again. Returns how long each took to be
    /// noticed.
    async fn kill_engines(&self, which: std::ops::Range<usize>) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        for id in self.ids.get(which).context("not so many models")? {
            docker(&["kill", &container(*id)])?;
            let begun = Instant::now();
            self.becomes(*id, "failed", begun + NOTICED_WITHIN).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            self.command(*id, "start").await?;
            self.becomes(*id, "running", Instant::now() + NOTICED_WITHIN).await?;
        }
        Ok(times)
    }

    /// Kills and starts the gateway. Returns how long it took until each model answered, and how many containers were
    /// replaced.
    async fn kill_gateway(&mut self, kills: usize) -> Result<(Vec<f64>, usize)> {
        let before = self.lives()?;
        let mut times = Vec::new();
        for _ in 0..kills {
            let pid = self.pid()?.to_string();
            ensure!(Command::new("kill").args(["-KILL", &pid]).status()?.success(), "it can't be killed");
            // Reaps it.
            drop(self.gateway.take());
            let begun = Instant::now();
            self.spawn(None)?;
            try_join_all(self.ids.iter().map(|id| self.first_answer(*id, begun))).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            sleep(Duration::from_secs(1)).await;
        }
        let after = self.lives()?;
        Ok((times, before.iter().filter(|(id, life)| after.get(*id) != Some(*life)).count()))
    }

    /// Calls a model until it answers. Once the gateway listens, anything but an answer is an error.
    async fn first_answer(&self, id: i64, begun: Instant) -> Result<()> {
        let name = served_name(id);
        let body = json!({
            "model": name, "max_tokens": 1, "messages": [{ "role": "user", "content": "Hello" }],
        });
        loop {
            let call = Call::post(self.addr, "/v1/chat/completions", body.clone());
            match (Call { bearer: Some(&self.key), ..call }).send().await {
                Ok(Answer { status, .. }) if status.is_success() => return Ok(()),
                Ok(answer) => bail!("the first request to {name}: {} {}", answer.status, answer.quote()),
                Err(_) if begun.elapsed() < READY_WITHIN => sleep(Duration::from_millis(2)).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the container id and the start time of each model's container.
    fn lives(&self) -> Result<BTreeMap<i64, String>> {
        let format = "{{.Id}} {{.State.StartedAt}}";
        self.ids
            .iter()
            .map(|id| Ok((*id, docker(&["inspect", "--format", format, &container(*id)])?)))
            .collect()
    }

    fn clear(&mut self) {
        drop(self.gateway.take());
        let Ok(instance) = fs::read_to_string(self.dir.join("data/instance")) else { return };
        let mine = format!("label=gantry.instance={}", instance.trim());
        let ids = docker(&["ps", "-aq", "--filter", &mine]).unwrap_or_default();
        for id in ids.split_whitespace() {
            docker(&["rm", "-f", "-v", id]).ok();
        }
    }
}

fn served_name(id: i64) -> String {
    format!("m{id}")
}

fn container(id: i64) -> String {
    format!("primary-model-{id}")
}

fn docker(args: &[&str]) -> Result<String> {
    let output = Command::new("docker").args(args).output().context("docker is not installed")?;
    ensure!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "that of the `docker` program, which is asked as well")]
fn docker_socket() -> Result<PathBuf> {
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let path = host.strip_prefix("unix://").context("DOCKER_HOST is no socket of this machine")?;
    Ok(PathBuf::from(path))
}
