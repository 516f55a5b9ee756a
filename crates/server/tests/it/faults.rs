//! Faults of what the gateway stands on: the database, the disk, the clock, its open files, a second gateway.

use std::{
    fs,
    net::TcpStream,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use gantry_testkit::{
    Answer, Client, Managed, Options, Postgres, SmallDisk, chat, eventually, root_with, simulated, simulator,
};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    monitoring,
    simulator::Simulator,
    support::{GANTRY, assert_error, start},
};

const SOON: Duration = gantry_testkit::PATIENCE;

/// A chat with an id of its own, to find its row by.
pub(crate) async fn ask(client: &Client, id: &str) -> Answer {
    let request = client.request(Method::POST, "/v1/chat/completions").header("x-request-id", id);
    client.send(request.json(&chat("m"))).await
}

async fn readiness(client: &Client) -> Value {
    client.get("/readyz").await.json
}

#[tokio::test]
async fn while_the_database_is_away_inference_goes_on_and_nothing_is_lost() {
    let Some(database) = Postgres::start("faults: the database is away") else { return };
    let simulator = Simulator::start("").await;
    let gateway = start(Options::default().env("DATABASE_URL", &database.url())).await;
    let client = simulator.join(&gateway).await;
    let owner = gateway.owner().await;
    assert_eq!(ask(&client, "before").await.status, 200);

    database.down();
    for n in 0..20 {
        let answer = ask(&client, &format!("away-{n}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let refused = Instant::now();
    assert_error(&owner.get("/admin/models").await, 503, "database_unavailable");
    println!("an admin request is refused after {:?}", refused.elapsed());
    let ready = readiness(&client).await;
    assert_ne!(ready["checks"]["database"], "ok", "{ready}");
    assert_eq!(ask(&client, "still-away").await.status, 200);
    // An alert of ours looks at both.
    eventually("it is seen that usage waits", SOON, async || {
        let page = monitoring::page(&gateway).await;
        let [left, failed] = ["gantry_spool_backlog_bytes", "gantry_usage_ship_failures_total"]
            .map(|it| monitoring::value(&page, it));
        (left > 20.0 * 100.0 && failed > 0.0).then_some(())
    })
    .await;

    database.up();
    let back = Instant::now();
    eventually("admin requests are answered", SOON, async || {
        (owner.get("/admin/models").await.status == 200).then_some(())
    })
    .await;
    println!("admin requests are answered {:?} after the database is back", back.elapsed());
    eventually("all rows are there", SOON, async || {
        let rows = owner.get("/admin/usage?limit=1000").await.expect(200);
        (rows.as_array().unwrap().len() == 22).then_some(())
    })
    .await;
    for id in ["before", "away-0", "away-19", "still-away"] {
        let row = owner.usage_of(id).await;
        assert_eq!((&row["outcome"], &row["status_code"]), (&json!("ok"), &json!(200)), "{row}");
    }
    assert_eq!(readiness(&client).await["checks"]["database"], "ok");
    eventually("nothing waits", SOON, async || {
        let page = monitoring::page(&gateway).await;
        (monitoring::value(&page, "gantry_spool_backlog_bytes") == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_a_full_spool_nothing_is_served_unmetered() {
    // On the first disk segments grow as they are written. On the other they are allocated before, and give back their room once
    // their rows are stored, so that the disk is full for a moment only.
    for (size, lasts) in [("64k", true), ("6m", false)] {
        a_full_spool_is_refused(size, lasts).await;
    }
}

async fn a_full_spool_is_refused(size: &str, lasts: bool) {
    if !root_with("faults: the spool's disk is full", &["mount"]) {
        return;
    }
    let simulator = Simulator::start("").await;
    let mut gateway = start(Options::default()).await;
    let client = simulator.join(&gateway).await;
    gateway.terminate();
    let disk = SmallDisk::mount(&gateway.data_dir().join("spool"), size);
    gateway.restart().await;
    let client = client.at(&gateway.url);
    assert_eq!(ask(&client, "before").await.status, 200);

    disk.fill();
    // Records still fit into what is allocated.
    let mut answer = ask(&client, "full").await;
    for n in 0..10_000 {
        if answer.status != 200 {
            break;
        }
        answer = ask(&client, &format!("full-{n}")).await;
    }
    assert_error(&answer, 503, "metering_unavailable");
    let owner = gateway.owner().await;
    assert_eq!(owner.get("/admin/models").await.status, 200, "the rest goes on");
    // To everybody who looks, and as long as it lasts.
    for _ in 0..if lasts { 3 } else { 0 } {
        let ready = client.get("/readyz").await;
        assert_eq!((ready.status, &ready.json["status"]), (503, &json!("unavailable")), "{}", ready.text);
        let why = "usage can't be recorded: no space is left on the disk of DATA_DIR";
        assert_eq!(ready.json["checks"]["usage_spool"], why);
    }

    disk.clear();
    let cleared = Instant::now();
    // A gateway that gets no requests while it is not ready becomes ready all the same.
    assert_eq!(readiness(&client).await["checks"]["usage_spool"], "ok");
    eventually("it serves again", SOON, async || (ask(&client, "after").await.status == 200).then_some(()))
        .await;
    println!("a full spool: it serves {:?} after there is room", cleared.elapsed());
    let row = owner.usage_of("after").await;
    assert_eq!(row["outcome"], "ok", "{row}");
    assert_eq!(owner.usage_of("before").await["outcome"], "ok");
    gateway.kill();
}

#[tokio::test]
async fn with_a_full_database_inference_goes_on_and_nothing_is_lost() {
    if !root_with("faults: the database's disk is full", &["mount"]) {
        return;
    }
    let simulator = Simulator::start("").await;
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&dir.path().join("db"), "8m");
    let url = format!("sqlite://{}", disk.path().join("gantry.db").display());
    let mut gateway = start(Options::default().env("DATABASE_URL", &url)).await;
    let client = simulator.join(&gateway).await;
    let owner = gateway.owner().await;
    assert_eq!(ask(&client, "before").await.status, 200);
    owner.usage_of("before").await;

    disk.fill();
    // What is there of the log is used up first.
    let refused = eventually("a write is refused", SOON, async || {
        let answer = owner.post("/admin/keys", &json!({ "name": "x".repeat(100) })).await;
        (answer.status != 201).then_some(answer)
    });
    assert_error(&refused.await, 503, "database_unavailable");
    for n in 0..50 {
        assert_eq!(ask(&client, &format!("full-{n}")).await.status, 200);
    }
    assert_eq!(owner.get("/admin/models/registry").await.status, 200, "reading goes on");

    disk.clear();
    let cleared = Instant::now();
    eventually("all rows are there", SOON, async || {
        let rows = owner.get("/admin/usage?limit=1000").await;
        (rows.status == 200 && rows.json.as_array().unwrap().len() == 51).then_some(())
    })
    .await;
    println!("a full database: all rows are there {:?} after there is room", cleared.elapsed());
    owner.new_key(&json!({})).await;
    gateway.kill();
}

#[tokio::test]
async fn a_second_gateway_on_a_data_directory_says_so_and_changes_nothing() {
    let gateway = start(Options::default()).await;
    let files = |dir: &Path| {
        let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name()).collect();
        all.sort();
        (all, fs::read_to_string(dir.join("instance")).unwrap())
    };
    let before = files(&gateway.data_dir());
    let elsewhere = tempfile::tempdir().unwrap();
    // With the same database; with another one, and so with another id; on the first one's address.
    let other = format!("sqlite://{}", elsewhere.path().join("other.db").display());
    let taken = gateway.url.trim_start_matches("http://").to_owned();
    let free = "127.0.0.1:0".to_owned();
    for (listen, database) in [(&free, None), (&free, Some(&other)), (&taken, None)] {
        let mut second = Command::new(GANTRY);
        second.arg("serve").current_dir(elsewhere.path()).env_clear();
        second.env("DATA_DIR", gateway.data_dir()).env("MODELS_DIR", gateway.models_dir());
        second.env("GATEWAY_LISTEN", listen).env("METRICS_LISTEN", "127.0.0.1:0");
        second.envs(database.map(|it| ("DATABASE_URL", it)));
        let begun = Instant::now();
        let output = second.output().unwrap();
        println!("a second gateway ends after {:?}", begun.elapsed());
        let said = String::from_utf8_lossy(&output.stderr);
        let error = said.lines().find(|it| it.starts_with("gantry: ")).unwrap_or_default();
        assert!(error.starts_with("gantry: another gateway uses DATA_DIR ("), "{said}");
        assert!(!output.status.success());
    }
    assert_eq!(files(&gateway.data_dir()), before);
    assert_eq!(gateway.owner().await.get("/admin/models").await.status, 200);
}

#[tokio::test]
async fn a_second_gateway_on_a_database_says_so_by_whatever_name() {
    let gateway = start(Options::default().env("DATABASE_URL", "sqlite://shared.db")).await;
    // Where it runs.
    let here = gateway.data_dir().parent().unwrap().to_owned();
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(here.join("shared.db"), link.path().join("linked.db")).unwrap();
    let whole = |path: &Path| format!("sqlite://{}", path.display());
    let names = [
        "sqlite://shared.db".to_owned(),
        "sqlite://./data/../shared.db".to_owned(),
        whole(&here.join("shared.db")),
        whole(&link.path().join("linked.db")),
    ];
    for name in names {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut second = Command::new(GANTRY);
        second.arg("serve").current_dir(&here).env_clear().env("DATABASE_URL", &name);
        second.env("DATA_DIR", elsewhere.path()).env("MODELS_DIR", gateway.models_dir());
        second.env("GATEWAY_LISTEN", "127.0.0.1:0").env("METRICS_LISTEN", "127.0.0.1:0");
        let output = second.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let error = said.lines().find(|it| it.starts_with("gantry: ")).unwrap_or_default();
        assert!(error.starts_with("gantry: another gateway uses the database "), "{name}: {said}");
        assert!(!output.status.success());
    }
}

#[tokio::test]
async fn without_free_file_descriptors_it_goes_on_afterwards() {
    if !root_with("faults: no file descriptor is free", &["prlimit"]) {
        return;
    }
    let simulator = Simulator::start("").await;
    let wrapper = ["prlimit", "--nofile=96:96"].map(str::to_owned).to_vec();
    let options = Options { wrapper, ..Options::default() };
    // More than there are descriptors for: else the gateway would keep some.
    let options = options.env("CONNECTIONS_MAX", "1000");
    let options = options.env("DATAPLANE_THREADS", "1").env("BREAKER_COOLDOWN_SEC", "600");
    let gateway = start(options).await;
    let client = simulator.join(&gateway).await;
    // The client is connected and the spool open; to the engine there is no connection yet.
    assert_eq!(client.chat("nobody's").await.status, 404);
    let owner = gateway.owner().await;

    let address = gateway.url.trim_start_matches("http://").to_owned();
    let open: Vec<_> = (0..200).map(|_| TcpStream::connect(&address).unwrap()).collect();
    eventually("all descriptors are taken", SOON, async || {
        let n = fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count();
        (n >= 96).then_some(())
    })
    .await;
    // As many as open a breaker, which they must not: it is no fault of the engine's.
    for _ in 0..8 {
        let answer = client.chat("m").await;
        assert_eq!(answer.code(), "model_unavailable", "{}", answer.text);
        assert!(answer.text.contains("can't be reached"), "{}", answer.text);
    }

    drop(open);
    let closed = Instant::now();
    eventually("new connections are served", SOON, async || {
        (client.at(&gateway.url).chat("m").await.status == 200).then_some(())
    })
    .await;
    println!("descriptors: new connections are served {:?} after some are free", closed.elapsed());
    assert_eq!(owner.get("/admin/models").await.status, 200);
    let said = gateway.log();
    assert!(said.lines().count() < 2000, "it does not flood its log: {} lines", said.lines().count());
}

#[tokio::test]
async fn idle_connections_take_no_descriptor_that_engines_need() {
    if !root_with("faults: idle connections", &["prlimit"]) {
        return;
    }
    let simulator = Simulator::start("").await;
    let wrapper = ["prlimit", "--nofile=256:256"].map(str::to_owned).to_vec();
    let gateway = start(Options { wrapper, ..Options::default() }).await;
    let client = simulator.join(&gateway).await;
    let address = gateway.url.trim_start_matches("http://").to_owned();
    let _open: Vec<_> = (0..700).map(|_| TcpStream::connect(&address).unwrap()).collect();
    eventually("all but those that have a place are sent away", SOON, async || {
        let page = monitoring::page(&gateway).await;
        let of = |why: &str| {
            monitoring::value(&page, &format!("gantry_connections_refused_total{{why=\"{why}\"}}"))
        };
        (of("silent") + of("full") + of("address") >= 600.0).then_some(())
    })
    .await;
    for _ in 0..30 {
        // Each on a connection of its own.
        let answer = client.at(&gateway.url).chat("m").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
}

#[tokio::test]
async fn a_spool_that_somebody_cuts_off_ends_the_gateway_once() {
    if !root_with("faults: the spool is cut off", &["mount"]) {
        return;
    }
    let simulator = Simulator::start("").await;
    let mut gateway = start(Options::default()).await;
    let client = simulator.join(&gateway).await;
    gateway.terminate();
    let disk = SmallDisk::mount(&gateway.data_dir().join("spool"), "16m");
    gateway.restart().await;
    let client = client.at(&gateway.url);
    assert_eq!(ask(&client, "before").await.status, 200);
    let owner = gateway.owner().await;
    assert_eq!(owner.usage_of("before").await["outcome"], "ok");
    for entry in fs::read_dir(disk.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "log") {
            fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        }
    }
    // The kernel ends a process that writes where its file has no bytes any more (SIGBUS).
    let asked = client.clone();
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    let cut = tokio::spawn(async move { ask(&asked, "cut").await.status });
    let _ = cut.await;
    assert!(!gateway.ended().await);
    gateway.restart().await;
    let client = client.at(&gateway.url);
    for id in ["after", "again"] {
        assert_eq!(ask(&client, id).await.status, 200);
    }
    let owner = gateway.owner().await;
    for id in ["before", "after", "again"] {
        assert_eq!(owner.usage_of(id).await["outcome"], "ok", "{id}");
    }
    assert_eq!(readiness(&client).await["checks"]["usage_spool"], "ok");
    gateway.kill();
}

#[tokio::test]
async fn a_spool_that_can_not_be_written_is_refused_at_start() {
    if !root_with("faults: the spool is read-only", &["mount"]) {
        return;
    }
    let mut gateway = start(Options::default()).await;
    assert!(gateway.terminate());
    let disk = SmallDisk::mount(&gateway.data_dir().join("spool"), "64k");
    disk.read_only();
    let mut again = Command::new(GANTRY);
    again
        .arg("serve")
        .env_clear()
        .env("DATA_DIR", gateway.data_dir())
        .env("MODELS_DIR", gateway.models_dir());
    again.env("GATEWAY_LISTEN", "127.0.0.1:0").env("METRICS_LISTEN", "127.0.0.1:0");
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("gantry: ") && said.contains("Read-only file system"), "{said}");
    drop(disk);
    gateway.restart().await;
    assert_eq!(gateway.client().get("/readyz").await.status, 200);
}

const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// A gateway's clock, which can be set while it runs.
struct WrongClock(TempDir);

impl WrongClock {
    /// `None` is noted as skipped.
    fn new(test: &str) -> Option<Self> {
        if !Path::new(FAKETIME).exists() {
            gantry_testkit::skip(test, "libfaketime is not installed");
            return None;
        }
        let clock = Self(tempfile::tempdir().unwrap());
        clock.set("+0");
        Some(clock)
    }

    /// Seconds with a sign.
    fn set(&self, offset: &str) {
        // Renamed, so that it is never read half written.
        fs::write(self.0.path().join("part"), offset).unwrap();
        fs::rename(self.0.path().join("part"), self.0.path().join("time")).unwrap();
    }

    fn of(&self, options: Options) -> Options {
        options
            .env("LD_PRELOAD", FAKETIME)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_TIMESTAMP_FILE", self.0.path().join("time").to_str().unwrap())
    }
}

#[tokio::test]
async fn a_clock_that_is_set_moves_no_delay_and_no_waiting_time() {
    let Some(clock) = WrongClock::new("faults: the clock is set while somebody waits") else { return };
    let gateway = start(clock.of(Options::processes())).await;
    let guess = async || {
        let body = json!({ "username": "owner", "password": "wrong-password" });
        gateway.client().post("/auth/login", &body).await
    };
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[("LOAD_SECONDS", "600")])).await;
    model.start(&owner).await;
    model.reaches(&owner, "loading").await;
    eventually("guesses are slowed down", SOON, async || (guess().await.status == 429).then_some(())).await;
    clock.set("-3600");
    eventually("the delay is over", SOON, async || (guess().await.status == 401).then_some(())).await;
    for offset in ["+3600", "-3600"] {
        clock.set(offset);
        let path = model.path("readiness");
        let elapsed = owner.get(&path).await.expect(200)["elapsed_sec"].as_u64().unwrap();
        assert!(elapsed < 600, "{offset}: {elapsed}");
    }
    clock.set("+0");
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
}

const TEN_YEARS: [&str; 2] = ["+315360000", "-315360000"];

#[tokio::test]
async fn a_clock_that_is_set_moves_no_deadline() {
    if !simulator(GANTRY, "faults: the clock is set") {
        return;
    }
    let Some(clock) = WrongClock::new("faults: the clock is set") else { return };
    let gateway = start(clock.of(Options::containers())).await;
    let owner = gateway.owner().await;
    let running = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let (_, key) = owner.new_key(&json!({})).await;
    let hour = |text: &str| text.split('T').nth(1).unwrap()[..2].to_owned();
    let mut hours = Vec::new();
    for (n, offset) in ["+3600", "-3600", "+0"].into_iter().enumerate() {
        let mut body = simulated("llamacpp", &format!("loads-{n}"), &[("LOAD_SECONDS", "6")]);
        body["startup_timeout_sec"] = json!(240);
        let loads = Managed::create(&owner, &body).await;
        loads.start(&owner).await;
        loads.has_been(&owner, "loading", 1).await;
        clock.set(offset);
        // The session, the key, the routes and both models are as before.
        loads.reaches(&owner, "running").await;
        let answer = ask(&key, &format!("request-{n}")).await;
        assert_eq!(answer.status, 200, "{offset}: {}", answer.text);
        assert_eq!(running.record(&owner).await["state"], "running", "{offset}");
        let row = owner.usage_of(&format!("request-{n}")).await;
        let at = row["created_at"].as_str().or_else(|| row["ts"].as_str()).unwrap_or_else(|| panic!("{row}"));
        hours.push(hour(at));
        loads.command(&owner, "stop").await.expect(202);
        loads.reaches(&owner, "stopped").await;
    }
    assert!(hours[0] != hours[1] && hours[1] != hours[2], "the clock was set: {hours:?}");
    // Years: sessions are over, and what needs none goes on.
    for (n, offset) in TEN_YEARS.into_iter().enumerate() {
        let mut body = simulated("llamacpp", &format!("years-{n}"), &[("LOAD_SECONDS", "6")]);
        body["startup_timeout_sec"] = json!(240);
        let loads = Managed::create(&owner, &body).await;
        loads.start(&owner).await;
        loads.has_been(&owner, "loading", 1).await;
        clock.set(offset);
        eventually("it gets ready", SOON, async || {
            (ask(&key, &format!("years-{n}")).await.status == 200).then_some(())
        })
        .await;
        eventually("and serves", SOON, async || {
            (key.chat(&loads.served_name).await.status == 200).then_some(())
        })
        .await;
        clock.set("+0");
        loads.command(&owner, "stop").await.expect(202);
        loads.reaches(&owner, "stopped").await;
    }
    assert_eq!(running.timeline(&owner).await.len(), 3, "nothing happened to it");
}

#[tokio::test]
async fn a_clock_that_is_years_ahead_deletes_nothing() {
    let Some(clock) = WrongClock::new("faults: the clock is years ahead at start") else { return };
    let simulator = Simulator::start("").await;
    let mut gateway = start(clock.of(Options::default())).await;
    let client = simulator.join(&gateway).await;
    assert_eq!(ask(&client, "before").await.status, 200);
    gateway.owner().await.usage_of("before").await;
    clock.set(TEN_YEARS[0]);
    // The second time it has seen that time before.
    for life in 1..=2 {
        assert!(gateway.terminate());
        gateway.restart().await;
        eventually("its chores are done", SOON, async || {
            let said = gateway.log();
            let looked = said.matches("old rows are kept").count();
            (looked == life).then_some(())
        })
        .await;
    }
    clock.set("+0");
    assert_eq!(gateway.owner().await.usage_of("before").await["outcome"], "ok");
}
