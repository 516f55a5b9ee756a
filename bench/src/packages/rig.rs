//! A gateway with weights, whose exports are waited for.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::weights::FOLDER;
use crate::{
    child::{Placement, Running},
    compare::Mock,
    gateway::{self, Launch},
    http_client::Call,
    procfs,
};

const READY_WITHIN: Duration = Duration::from_mins(1);
/// Longest job that is waited for.
const ENDED_WITHIN: Duration = Duration::from_mins(30);
const POLL: Duration = Duration::from_millis(20);

pub(super) struct Rig {
    launch: Launch,
    pub(super) binary: PathBuf,
    running: Option<Running>,
    cookie: String,
    /// For `/v1`.
    pub(super) key: String,
    data: PathBuf,
    _mock: Mock,
}

impl Rig {
    pub(super) async fn start(binary: &Path, dir: &Path) -> Result<Self> {
        // Processes are not bound to cores: an export takes whatever is free.
        let placement = Placement { is_pinned: false, is_realtime: false };
        let mock = Mock::start(placement)?;
        let launch = Launch::prepare(binary, dir, placement)?;
        let second = json!({ "name": "second", "scopes": "chat" });
        let (running, [key, _]) = gateway::start_with_keys(&launch, mock.addr, second).await?;
        let cookie = launch.login().await?;
        let binary = binary.canonicalize()?;
        let data = dir.join("gantry/data");
        Ok(Self { launch, binary, running: Some(running), cookie, key, data, _mock: mock })
    }

    /// The models base directory.
    pub(super) fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    /// The folder of a package.
    pub(super) fn package(&self, name: &str) -> PathBuf {
        self.data.join("exports").join(name)
    }

    /// The file in which the gateway remembers the sums of weights.
    pub(super) fn sums(&self) -> PathBuf {
        self.data.join("package-sums")
    }

    pub(super) fn addr(&self) -> std::net::SocketAddr {
        self.launch.addr
    }

    pub(super) fn pid(&self) -> Result<u32> {
        Ok(self.running.as_ref().context("no gateway")?.pid())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.running.take().context("no gateway")?.stop()
    }

    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        let done = Command::new("kill").args([signal, &self.pid()?.to_string()]).status()?;
        ensure!(done.success(), "the gateway can't be sent {signal}");
        Ok(())
    }

    /// Kills the gateway and starts it again.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.signal("-KILL")?;
        // Reaps it.
        drop(self.running.take());
        let mut running = self.launch.spawn()?;
        Call::get(self.launch.addr, "/readyz").wait_for_200(&mut running, READY_WITHIN, POLL).await?;
        self.running = Some(running);
        self.cookie = self.launch.login().await?;
        Ok(())
    }

    pub(super) async fn call(&self, method: http::Method, path: &str, body: Option<Value>) -> Result<Value> {
        let call = Call { method, cookie: Some(&self.cookie), body, ..Call::get(self.launch.addr, path) };
        call.expect_success().await?.json()
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.call(http::Method::POST, path, Some(body)).await
    }

    /// Makes the model of the weights, number 1.
    pub(super) async fn make_model(&self) -> Result<()> {
        let body = json!({
            "served_name": "carried", "engine_type": "vllm",
            "local_path": FOLDER, "startup_timeout_sec": 600,
        });
        self.post("/admin/models", body).await.map(drop)
    }

    /// Begins an export of weights and everything else but images. Returns the job's id.
    pub(super) async fn begin(&self, name: &str, since: Option<&str>) -> Result<String> {
        let mut body = json!({ "output_dir": name, "tar_models": true, "include_images": false });
        if let (Some(since), Some(body)) = (since, body.as_object_mut()) {
            body.insert("since".to_owned(), since.into());
        }
        let job = self.post("/admin/deployment/export", body).await?;
        Ok(job["id"].as_str().context("the job has no id")?.to_owned())
    }

    pub(super) async fn job(&self, id: &str) -> Result<Value> {
        self.call(http::Method::GET, &format!("/admin/deployment/jobs/{id}"), None).await
    }

    /// Waits until the job has written `bytes`, and still runs.
    pub(super) async fn has_written(&self, id: &str, bytes: u64) -> Result<()> {
        let deadline = Instant::now() + ENDED_WITHIN;
        loop {
            let job = self.job(id).await?;
            if job["bytes_written"].as_u64() >= Some(bytes) && job["status"] == "running" {
                return Ok(());
            }
            ensure!(job["finished_at"].is_null(), "the export is too short to be measured: use more --gib");
            ensure!(Instant::now() < deadline, "the job takes too long");
            sleep(POLL).await;
        }
    }

    /// Waits until the job has completed.
    pub(super) async fn completes(&self, id: &str) -> Result<()> {
        let deadline = Instant::now() + ENDED_WITHIN;
        loop {
            let job = self.job(id).await?;
            match job["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("running" | "pending") if Instant::now() < deadline => sleep(POLL).await,
                _ => bail!("the job has not completed: {job}"),
            }
        }
    }

    /// Exports and returns the seconds that it took.
    pub(super) async fn export(&self, name: &str, since: Option<&str>) -> Result<f64> {
        let start = Instant::now();
        let id = self.begin(name, since).await?;
        self.completes(&id).await?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Imports weights, waits until that has completed, and returns the seconds that it took.
    pub(super) async fn import(&self, name: &str) -> Result<f64> {
        let start = Instant::now();
        let body = json!({ "output_dir": name, "include_images": false, "include_models": false });
        let job = self.post("/admin/deployment/import", body).await?;
        self.completes(job["id"].as_str().context("the job has no id")?).await?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Restores the database of a package, and signs in again.
    pub(super) async fn restore(&mut self, name: &str) -> Result<f64> {
        let start = Instant::now();
        let body = json!({ "output_dir": name, "drop_existing": true });
        let job = self.post("/admin/deployment/restore-database", body).await?;
        let id = job["id"].as_str().context("the job has no id")?;
        let deadline = Instant::now() + ENDED_WITHIN;
        // The restore ends this session.
        while self.job(id).await.is_ok_and(|it| it["status"] == "running") {
            ensure!(Instant::now() < deadline, "the restore takes too long");
            sleep(POLL).await;
        }
        self.cookie = self.launch.login().await?;
        self.completes(id).await?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Does something, and returns its result with the gateway's largest memory meanwhile over that before, in MiB.
    pub(super) async fn with_extra_mib<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, f64)> {
        let pid = self.pid()?;
        let before = procfs::rss_kib(pid)?;
        procfs::forget_peak(pid)?;
        let done = work(self).await?;
        let extra = procfs::rss_peak_kib(pid)?.saturating_sub(before);
        Ok((done, extra as f64 / 1024.0))
    }

    /// Runs `gantry package`, and returns the seconds that it took and its largest memory in MiB.
    pub(super) fn package_verb(&self, verb: &str, name: &str) -> Result<[f64; 2]> {
        let mut command = Command::new("/usr/bin/time");
        command.args(["-f", "%M"]).arg(&self.binary).args(["package", verb]).arg(self.package(name));
        let start = Instant::now();
        let output = command.output().context("GNU time is not installed")?;
        let seconds = start.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "gantry package {verb}: {said}");
        let kib: f64 = said.lines().last().and_then(|it| it.trim().parse().ok()).context("no memory")?;
        Ok([seconds, kib / 1024.0])
    }
}
