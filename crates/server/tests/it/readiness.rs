//! `/readyz` while the container runtime is silent, gone, or back.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use gantry_testkit::{Answer, Gateway, Options, eventually};
use tempfile::TempDir;

use crate::support::start;

const SOON: Duration = gantry_testkit::PATIENCE;

/// A container engine that takes every connection, and says which version it is once it is to.
struct Engine {
    dir: TempDir,
    answers: Arc<AtomicBool>,
    /// Connections that ever were.
    taken: Arc<AtomicUsize>,
}

impl Engine {
    fn start() -> Self {
        let dir = TempDir::with_prefix("ge").unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let it = Self { dir, answers: Arc::default(), taken: Arc::default() };
        let (answers, taken) = (Arc::clone(&it.answers), Arc::clone(&it.taken));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                taken.fetch_add(1, SeqCst);
                let answers = Arc::clone(&answers);
                std::thread::spawn(move || serve(stream, &answers));
            }
        });
        it
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }
}

fn serve(mut stream: UnixStream, answers: &AtomicBool) {
    const BODY: &str = r#"{"Version":"27.0.1","ApiVersion":"1.47","MinAPIVersion":"1.24"}"#;
    let mut buffer = [0; 16 << 10];
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {
        if answers.load(Relaxed) {
            let head = format!("content-type: application/json\r\ncontent-length: {}", BODY.len());
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{BODY}");
        }
    }
}

async fn gateway(socket: &Path) -> Gateway {
    let host = format!("unix://{}", socket.display());
    start(Options::default().env("CONTAINER_RUNTIME", "docker").env("CONTAINER_HOST", &host)).await
}

/// What it says of the runtime, while it serves.
fn degraded(answer: &Answer) -> &str {
    assert_eq!((answer.status, &answer.json["status"]), (200, &"degraded".into()), "{}", answer.text);
    answer.json["checks"]["container_runtime"].as_str().unwrap()
}

#[tokio::test]
async fn a_runtime_that_is_silent_is_asked_once_for_all_who_want_to_know() {
    let engine = Engine::start();
    let gateway = gateway(&engine.socket()).await;
    let client = gateway.client();
    let (before, begun) = (engine.taken.load(SeqCst), Instant::now());
    let answers = join_all((0..60).map(|_| client.get("/readyz"))).await;
    println!("60 are answered after {:?}", begun.elapsed());
    for answer in &answers {
        assert_eq!(degraded(answer), "it does not answer");
    }
    // The reconciler asks for itself, more often while a busy machine takes longer for the answers.
    let (asked, took) = (engine.taken.load(SeqCst) - before, begun.elapsed());
    assert!(asked as u64 <= 20 + took.as_secs(), "{asked} connections for 60 who ask, in {took:?}");

    let said = || gateway.log().matches("the container runtime does not answer as it should").count();
    eventually("the log says so", SOON, async || (said() > 0).then_some(())).await;
    client.get("/readyz").await;
    assert_eq!(said(), 1, "once");

    engine.answers.store(true, Relaxed);
    eventually("it is seen to answer", SOON, async || {
        (client.get("/readyz").await.json["checks"]["container_runtime"] == "ok").then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_is_told_where_the_runtime_should_be() {
    let dir = TempDir::new().unwrap();
    let gateway = gateway(&dir.path().join("not-there")).await;
    let answer = gateway.client().get("/readyz").await;
    assert_eq!(degraded(&answer), "it can't be reached");
    assert!(!answer.text.contains("not-there") && !answer.text.contains("unix:"), "{}", answer.text);
    // An owner sees the details.
    let told = gateway.owner().await.get("/admin/system/capabilities").await.expect(200);
    let detail = told["container_runtime"]["detail"].as_str().unwrap();
    assert!(detail.contains("not-there"), "{detail}");
    eventually("the log says so", SOON, async || {
        let log = gateway.log();
        log.lines().any(|it| it.contains("container runtime") && it.contains("not-there")).then_some(())
    })
    .await;
}
