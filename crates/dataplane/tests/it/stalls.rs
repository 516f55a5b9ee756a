//! An engine that falls silent: a real process that is stopped (`SIGSTOP`), as a hung one looks from outside.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_dataplane::{RouteTarget, Upstream, UpstreamHealth, progress::MIN_SEEN};
use gantry_domain::{model::Task, usage::Outcome};

use crate::{
    client::{Client, post},
    engine::{Engine, PATIENCE, SSE_HEAD, chunk, json},
    gateway::{Gateway, KEY, catalog, key_entry, route},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3}"#;
const STREAM: &str =
    r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true}"#;
const OTHER: &str = "gty_other";
const EVENT: &str = "data: {\"choices\":[{}]}\n\n";

fn gateway(addr: std::net::SocketAddr, floor: Duration) -> (Gateway, Arc<Upstream>) {
    let engine = Upstream::new(1, &format!("http://{addr}"), Some("internal"), Arc::default()).unwrap();
    let engine = Arc::new(engine.with_stall_floor(floor));
    let mut catalog = catalog(addr, vec![(KEY, key_entry(1))]);
    let target = RouteTarget::Up(Arc::clone(&engine));
    catalog.routes.insert("m".into(), Arc::new(route("m", Task::Generate, target)));
    (Gateway::with(catalog, |_| {}), engine)
}

pub(crate) async fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(PATIENCE, what, holds).await;
}

async fn until_within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the engine is held to be stalled. `longest` is the longest time that it took for an answer. However slow it
/// was before, it is allowed to be so again: eight times as slow as the power of two above that.
async fn until_stalled(engine: &Upstream, longest: Duration) {
    let limit = (PATIENCE + longest * 16).min(Duration::from_mins(4));
    let what = format!("the engine, which took up to {longest:?} before, is held to be stalled");
    until_within(limit, &what, || is_stalled(engine)).await;
}

fn is_stalled(engine: &Upstream) -> bool {
    matches!(engine.health(Instant::now()), UpstreamHealth::Stalled { .. })
}

/// `m` has answered often enough for its silence to mean something. Returns the longest time that an answer took.
async fn acquaint(client: &mut Client) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..MIN_SEEN {
        let asked = Instant::now();
        assert_eq!(client.ask(&post(CHAT, KEY, "", BODY)).await.status, 200);
        longest = longest.max(asked.elapsed());
    }
    longest
}

/// Text that the process prints before its address.
const LISTENS: &str = "the simulator listens on ";

/// A simulator in a process of its own.
struct Process {
    child: Child,
    addr: std::net::SocketAddr,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stalls::simulator_process", "--ignored", "--nocapture"])
            .env("SIMULATOR", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let addr = said.find_map(|line| line.split_once(LISTENS)?.1.parse().ok());
        Self { child, addr: addr.expect("it says where it listens") }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Stops it. A thread that runs just then goes on for a moment, and could answer what is sent next.
    async fn freeze(&self) {
        self.signal("-STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        until("all its threads have stopped", || {
            std::fs::read_dir(&tasks).unwrap().flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                // Behind the name, which stands in brackets (proc(5)).
                stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
            })
        })
        .await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "not a test: the process that the tests below start"]
#[expect(clippy::disallowed_methods, reason = "how the process is told")]
async fn simulator_process() {
    if std::env::var("SIMULATOR").is_err() {
        return;
    }
    let words = ["sim:m", "--served-model-name", "m", "--api-key", "internal"].map(str::to_owned);
    let config = gantry_sim::Config::parse(&words, &gantry_sim::Env::new()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    // It may stand behind what the test harness printed.
    println!("{LISTENS}{}", listener.local_addr().unwrap());
    gantry_sim::serve(listener, config, tokio_util::sync::CancellationToken::new()).await;
}

#[tokio::test]
async fn an_engine_that_hangs_gets_no_new_requests_until_it_goes_on() {
    let process = Process::start();
    let (gateway, engine) = gateway(process.addr, Duration::from_millis(300));
    let mut client = gateway.client().await;
    let longest = acquaint(&mut client).await;
    assert_eq!(engine.health(Instant::now()), UpstreamHealth::Ok);
    process.freeze().await;
    let stopped = Instant::now();
    let mut waits = gateway.client().await;
    waits.send(&post(CHAT, KEY, "", BODY)).await;
    until_stalled(&engine, longest).await;
    println!("with a floor of 300 ms: held to be stalled after {:?}", stopped.elapsed());
    let mut tries = gateway.client().await;
    tries.send(&post(CHAT, KEY, "", BODY)).await;
    let in_flight = || engine.in_flight.load(std::sync::atomic::Ordering::Relaxed);
    until("one tries", || in_flight() == 2).await;
    let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"));
    assert!(got.body.contains("has sent nothing for"), "{}", got.body);
    assert!(got.header("retry-after").is_some());
    // The requests that wait are not given up, and their answers end the quarantine.
    process.signal("-CONT");
    assert_eq!((waits.answer().await.status, tries.answer().await.status), (200, 200));
    assert_eq!(engine.health(Instant::now()), UpstreamHealth::Ok);
    assert_eq!(client.ask(&post(CHAT, KEY, "", BODY)).await.status, 200);
    let n = MIN_SEEN as usize;
    let rows = gateway.rows(n + 4).await;
    assert_eq!((rows[n].status_code, rows[n].outcome), (502, Outcome::UpstreamError));
}

#[tokio::test]
async fn when_nobody_waits_any_more_one_request_tries() {
    let process = Process::start();
    let (gateway, engine) = gateway(process.addr, Duration::from_millis(300));
    let mut client = gateway.client().await;
    let longest = acquaint(&mut client).await;
    process.freeze().await;
    let mut waits = gateway.client().await;
    waits.send(&post(CHAT, KEY, "", BODY)).await;
    until_stalled(&engine, longest).await;
    drop(waits);
    let ended = |n: u32| gateway.shared.counters.requests_total() == u64::from(MIN_SEEN + n);
    until("the one that waited is gone", || ended(1)).await;
    let in_flight = || engine.in_flight.load(std::sync::atomic::Ordering::Relaxed);
    for n in 0..2 {
        // The second one may try, because the first one left.
        let mut trial = gateway.client().await;
        trial.send(&post(CHAT, KEY, "", BODY)).await;
        until("the trial runs", || in_flight() == 1).await;
        assert_eq!(client.ask(&post(CHAT, KEY, "", BODY)).await.status, 502);
        if n == 1 {
            process.signal("-CONT");
            assert_eq!(trial.answer().await.status, 200);
        }
        drop(trial);
        until("the trial is over", || in_flight() == 0).await;
    }
    assert_eq!(engine.health(Instant::now()), UpstreamHealth::Ok);
    gateway.rows(MIN_SEEN as usize + 5).await;
}

/// The floor is far below the time that answers take here, and no request is refused: bytes come, to some request.
#[tokio::test]
async fn an_engine_that_is_slow_but_goes_on_is_not_held_to_be_stalled() {
    // This is long enough that the engine never really stalls, even on a slow machine; the moments below are made up.
    let floor = Duration::from_hours(1);
    let mut engine = Engine::start().await;
    let (gateway, upstream) = gateway(engine.addr, floor);
    let mut client = gateway.client().await;
    let streamed = BODY.replace("3}", "3,\"stream\":true}");
    for body in [BODY, &streamed] {
        for _ in 0..MIN_SEEN {
            client.send(&post(CHAT, KEY, "", body)).await;
            let call = engine.call().await;
            call.send(&json("{}"));
            client.answer().await;
        }
    }
    let mut stream = gateway.client().await;
    stream.send(&post(CHAT, KEY, "", &streamed)).await;
    let streaming = engine.call().await;
    streaming.send(SSE_HEAD);
    stream.head().await;
    let mut plain = gateway.client().await;
    plain.send(&post(CHAT, KEY, "", BODY)).await;
    let slow = engine.call().await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(50) {
        let before = Instant::now();
        streaming.send(&chunk(EVENT));
        assert_eq!(stream.chunk().await.as_deref(), Some(EVENT));
        // Longer than the floor since the plain request began, but not since the engine's last byte to anybody.
        assert_eq!(upstream.stalled(before + floor), None);
    }
    until("silence to both would be noticed", || upstream.stalled(Instant::now() + 2 * floor).is_some())
        .await;
    slow.send(&json("{}"));
    assert_eq!(plain.answer().await.status, 200);
    streaming.send(&format!("{}0\r\n\r\n", chunk("data: [DONE]\n\n")));
    while stream.chunk().await.is_some() {}
    gateway.rows(2 * MIN_SEEN as usize + 2).await;
}

/// Answers of 10 tokens to requests of both kinds, until the silence of the engine means something. Returns the longest time
/// that an answer took.
async fn acquaint_with(client: &mut Client, engine: &mut Engine) -> Duration {
    let usage = r#"{"usage":{"prompt_tokens":1,"completion_tokens":10}}"#;
    let mut longest = Duration::ZERO;
    for body in [BODY, STREAM] {
        for _ in 0..30 {
            let asked = Instant::now();
            client.send(&post(CHAT, KEY, "", body)).await;
            engine.call().await.send(&json(usage));
            assert_eq!(client.answer().await.status, 200);
            longest = longest.max(asked.elapsed());
        }
    }
    longest
}

fn two_keys(addr: std::net::SocketAddr) -> (Gateway, Arc<Upstream>) {
    let (gateway, engine) = gateway(addr, Duration::from_millis(300));
    let before = gateway.shared.catalog.load_full();
    let keys = [(KEY, key_entry(1)), (OTHER, key_entry(2))];
    let keys = keys.map(|(token, entry)| (gantry_domain::key::hash(token.as_bytes()), Arc::new(entry)));
    let routes = before.routes.clone();
    gateway.shared.publish(gantry_dataplane::Catalog { keys: keys.into(), routes, ..Default::default() });
    (gateway, engine)
}

#[tokio::test]
async fn a_plain_answer_that_takes_long_takes_the_model_from_nobody() {
    let mut engine = Engine::start().await;
    let (gateway, upstream) = two_keys(engine.addr);
    let mut client = gateway.client().await;
    acquaint_with(&mut client, &mut engine).await;
    let mut waits = gateway.client().await;
    // The answer may take seconds, however fast the short ones came: it may have a million times their tokens.
    waits.send(&post(CHAT, KEY, "", &BODY.replace("3}", "3000000}"))).await;
    let slow = engine.call().await;
    // The wait is the fault that is tested; it is three times the floor.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(upstream.health(Instant::now()), UpstreamHealth::Ok);
    for key in [KEY, OTHER].iter().cycle().take(10) {
        engine.serves(&mut client, &post(CHAT, key, "", BODY)).await;
    }
    slow.send(&json("{}"));
    assert_eq!(waits.answer().await.status, 200);
    gateway.rows(71).await;
}

#[tokio::test]
async fn one_who_is_told_nothing_takes_the_model_from_nobody_else() {
    let mut engine = Engine::start().await;
    let (gateway, upstream) = two_keys(engine.addr);
    let mut client = gateway.client().await;
    let longest = acquaint_with(&mut client, &mut engine).await;
    let mut waits = gateway.client().await;
    for n in 0..3 {
        waits.send(&post(CHAT, KEY, "", STREAM)).await;
        let silent = engine.call().await;
        until_stalled(&upstream, longest).await;
        for _ in 0..10 {
            engine.serves(&mut client, &post(CHAT, OTHER, "", BODY)).await;
        }
        // And again, with a connection of its own.
        waits = gateway.client().await;
        drop(silent);
        until("the client left", || gateway.shared.counters.requests_total() == 60 + 11 * (n + 1)).await;
    }
    gateway.rows(93).await;
}
