//! Simulates engines that misbehave: a socket that answers as a test says, or not at all.

use std::{
    fs::Permissions,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use gantry_domain::{ModelId, engine::Launch, model::InstanceNumber};
use gantry_runtime::{ContainerSpec, Docker, Runtime, RuntimeError, docker};
use secrecy::SecretString;

use crate::machine::{PATIENCE, new_owner};

/// A request's method with path, and its body.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// An engine whose answers (status, body) come from `answer`. It handles the API version itself.
struct Stub {
    dir: tempfile::TempDir,
    requests: Requests,
}

impl Stub {
    fn new(answer: impl Fn(&str, usize) -> (u16, String) + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
        let requests = Requests::default();
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, &log, &answer);
            }
        });
        Self { dir, requests }
    }

    fn runtime(&self) -> Docker {
        runtime_at(self.dir.path())
    }

    /// Returns how many requests began like this.
    fn count(&self, prefix: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|(line, _)| line.starts_with(prefix)).count()
    }
}

fn runtime_at(dir: &Path) -> Docker {
    docker(Some(&format!("unix://{}", dir.join("docker.sock").display())), new_owner()).unwrap()
}

fn serve(mut stream: UnixStream, log: &Requests, answer: &impl Fn(&str, usize) -> (u16, String)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if head.is_empty() {
            head = line;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let line = head.rsplit_once(' ').map_or("", |it| it.0).to_owned();
    let (status, text) = if line.ends_with("/version") {
        (200, r#"{"Version":"20.10.24","ApiVersion":"1.41"}"#.to_owned())
    } else if line.starts_with("GET") && line.ends_with("/info") {
        // The engine has no id of its own to report.
        (200, "{}".to_owned())
    } else if line.starts_with("GET") && line.contains("/networks?") {
        (200, "[]".to_owned())
    } else if line.contains("/networks/create") {
        (201, r#"{"Id":"2e7a","Warning":""}"#.to_owned())
    } else {
        let before = log.lock().unwrap().iter().filter(|(it, _)| *it == line).count();
        let answered = answer(&line, before);
        log.lock().unwrap().push((line, String::from_utf8(body).unwrap()));
        answered
    };
    let reply = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // A client that gave up does not make the stub fail.
    let _ = stream.write_all(if status == 204 {
        b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n"
    } else {
        reply.as_bytes()
    });
}

fn error(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

/// Answers like an engine that starts a container at the first attempt, unless `special` has another answer.
fn engine(
    special: impl Fn(&str, usize) -> Option<(u16, String)> + Send + 'static,
) -> impl Fn(&str, usize) -> (u16, String) + Send + 'static {
    move |line, before| {
        special(line, before).unwrap_or_else(|| match line {
            _ if line.starts_with("GET") => (404, error("No such container")),
            _ if line.contains("/containers/create") => (201, r#"{"Id":"4c5e","Warnings":[]}"#.to_owned()),
            _ => (204, String::new()),
        })
    }
}

async fn launch(runtime: &Docker) -> Result<(), RuntimeError> {
    let launch = Launch {
        image: "engine:1".to_owned(),
        entrypoint: None,
        args: vec!["serve".to_owned()],
        env: vec![("ENGINE_KEY".to_owned(), SecretString::from("s3cret-key-of-the-engine"))],
        gpus: Vec::new(),
        shm_bytes: None,
        mounts_hub_cache: false,
        locks_memory: true,
        confinement: gantry_domain::engine::Confinement::default(),
        warnings: Vec::new(),
    };
    let spec = ContainerSpec {
        name: "primary-model-7",
        model_id: ModelId(7),
        number: InstanceNumber::FIRST,
        generation: 1,
        launch: &launch,
        models_dir: Path::new("/big/models"),
        hub_cache_dir: Path::new("/big/hub"),
        key_fingerprint: "00",
    };
    runtime.launch(&spec).await.map(|_| ())
}

#[tokio::test]
async fn a_taken_port_is_tried_again_three_times_in_all() {
    let clash = "driver failed programming external connectivity: Bind for 127.0.0.1:32768 failed: port is already allocated";
    let stub = Stub::new(engine(move |line, before| {
        (line.contains("/start") && before == 0).then(|| (500, error(clash)))
    }));
    assert_eq!(launch(&stub.runtime()).await, Ok(()));
    assert_eq!((stub.count("POST /containers/create"), stub.count("DELETE")), (2, 1));

    let stub = Stub::new(engine(move |line, _| line.contains("/start").then(|| (500, error(clash)))));
    let refused = launch(&stub.runtime()).await.unwrap_err();
    assert!(refused.to_string().contains("port is already allocated"), "{refused}");
    assert_eq!((stub.count("POST /containers/create"), stub.count("DELETE")), (3, 3));
}

#[tokio::test]
async fn an_engine_that_may_not_lock_memory_is_asked_without() {
    let stub = Stub::new(engine(|line, before| {
        let refuse = line.contains("/start") && before == 0;
        refuse
            .then(|| (500, error("runc create failed: error setting rlimit type 8: operation not permitted")))
    }));
    assert_eq!(launch(&stub.runtime()).await, Ok(()));
    let requests = stub.requests.lock().unwrap();
    let bodies: Vec<bool> = requests
        .iter()
        .filter(|(line, _)| line.contains("/containers/create"))
        .map(|(_, body)| body.contains("memlock"))
        .collect();
    assert_eq!(bodies, [true, false]);
}

#[tokio::test]
async fn a_name_that_another_launch_took_in_between_is_looked_at_once_more() {
    let stub = Stub::new(engine(|line, before| {
        (line.contains("/create") && before == 0)
            .then(|| (409, error("Conflict. The container name is in use")))
    }));
    assert_eq!(launch(&stub.runtime()).await, Ok(()));
    assert_eq!(stub.count("POST /containers/create"), 2);
}

#[tokio::test]
async fn a_name_that_stays_taken_by_nothing_is_given_up() {
    let stub = Stub::new(engine(|line, _| line.contains("/create").then(|| (409, error("Conflict.")))));
    let refused = launch(&stub.runtime()).await;
    assert_eq!(refused, Err(RuntimeError::NameInUse { name: "primary-model-7".to_owned() }));
}

#[tokio::test]
async fn what_the_engine_says_of_a_secret_is_not_passed_on() {
    let stub = Stub::new(engine(|line, _| {
        line.contains("/create")
            .then(|| (400, error("invalid environment variable: ENGINE_KEY=s3cret-key-of-the-engine")))
    }));
    let refused = launch(&stub.runtime()).await.unwrap_err();
    assert!(refused.to_string().ends_with("invalid environment variable: ENGINE_KEY=***"), "{refused}");
    assert!(!format!("{refused:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_pull_tells_its_progress_and_its_failure() {
    let layer = |status: &str, done: u32| serde_json::json!({"id": "aa", "status": status, "progressDetail": {"current": done, "total": 100}});
    let good = format!("{}\r\n{}\r\n", layer("Downloading", 40), layer("Download complete", 0));
    let bad = r#"{"errorDetail":{"message":"manifest for engine:1 not found"},"error":"manifest for engine:1 not found"}"#;
    let stub = Stub::new(move |line, before| {
        assert!(line.contains("fromImage=engine%3Alatest"), "{line}");
        (200, if before == 0 { good.clone() } else { format!("{bad}\r\n") })
    });
    let runtime = stub.runtime();
    let (sender, told) = std::sync::mpsc::channel();
    let progress = Box::new(move |done, known| sender.send((done, known)).unwrap());
    assert_eq!(runtime.pull("engine", Duration::from_mins(1), progress).await, Ok(()));
    assert_eq!(told.iter().collect::<Vec<_>>(), [(40, 100), (100, 100)]);
    let refused = runtime.pull("engine", Duration::from_secs(5), Box::new(|_, _| ())).await;
    let detail = "manifest for engine:1 not found".to_owned();
    assert_eq!(refused, Err(RuntimeError::Refused { action: "pull the image", detail }));
}

#[tokio::test]
async fn a_removal_under_way_is_waited_for() {
    let stub = Stub::new(engine(|line, before| match line {
        "DELETE /containers/4c5e?v=true&force=true&link=false" => {
            Some((409, error("removal of container 4c5e is already in progress")))
        }
        "GET /containers/4c5e/json" | "GET /containers/4c5e/json?size=false" if before < 2 => {
            Some((200, r#"{"Id":"4c5e"}"#.to_owned()))
        }
        _ => None,
    }));
    let id = gantry_domain::model::lifecycle::InstanceId("4c5e".to_owned());
    assert_eq!(stub.runtime().remove(&id).await, Ok(()));
    assert_eq!(stub.count("GET /containers/4c5e/json"), 3);
}

#[tokio::test]
async fn an_engine_that_hangs_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
    let before = Instant::now();
    let runtime = runtime_at(dir.path());
    let listed = tokio::time::timeout(Duration::from_mins(2), runtime.list()).await;
    let error = listed.expect("it does not wait for ever").unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout { .. }) && error.is_unreachable(), "{error:?}");
    println!("given up after {:?}", before.elapsed());
    drop(listener);
}

#[tokio::test]
async fn an_engine_that_hangs_up_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let error = runtime_at(dir.path()).list().await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_engine_is_unreachable_until_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime_at(dir.path());
    let error = runtime.list().await.unwrap_err();
    assert!(error.to_string().contains("there is no socket"), "{error}");
    // A socket on which nothing listens any more.
    drop(UnixListener::bind(dir.path().join("docker.sock")).unwrap());
    let error = runtime.list().await.unwrap_err();
    assert!(error.to_string().contains("nothing listens"), "{error}");
    std::fs::remove_file(dir.path().join("docker.sock")).unwrap();
    let listener = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
    std::thread::spawn(move || {
        let answer = |_: &str, _| (200, "[]".to_owned());
        listener.incoming().map_while(Result::ok).for_each(|it| serve(it, &Requests::default(), &answer));
    });
    assert_eq!(runtime.list().await, Ok(vec![]));
}

/// Root may use any socket, so a copy of this program asks that runs as another user.
#[tokio::test]
async fn a_socket_that_is_not_ours_to_use_is_a_matter_of_permission() {
    const DIR: &str = "GANTRY_TEST_FORBIDDEN";
    if let Some(dir) = std::env::var_os(DIR) {
        let error = runtime_at(Path::new(&dir)).list().await.unwrap_err();
        assert!(matches!(error, RuntimeError::PermissionDenied { .. }), "{error:?}");
        assert!(error.to_string().contains("group `docker`"), "{error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
    let closed = Permissions::from_mode(0o600);
    std::fs::set_permissions(dir.path().join("docker.sock"), closed).unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut copy = Command::new(&program);
    copy.args(["--exact", "stub::a_socket_that_is_not_ours_to_use_is_a_matter_of_permission"]);
    copy.env(DIR, dir.path()).current_dir(dir.path()).uid(65534).gid(65534);
    match copy.output() {
        // Only root can become another user.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
        output => {
            let output = output.unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
    }
    drop(listener);
}

/// Answers like an engine that has every image, and sends an archive until nobody takes it any more, or `pieces` pieces.
/// Returns how the archive ended.
fn engine_that_saves(dir: &Path, pieces: usize) -> std::sync::mpsc::Receiver<std::io::Result<()>> {
    let listener = UnixListener::bind(dir.join("docker.sock")).unwrap();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap_or_default();
            if !line.contains("/images/get") {
                let known =
                    if line.contains("/version") { r#"{"ApiVersion":"1.41"}"# } else { r#"{"Id":"x"}"# };
                let head = format!("content-length: {}\r\nconnection: close\r\n\r\n{known}", known.len());
                let _ = write!(stream, "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n{head}");
                continue;
            }
            let mut answer = || {
                write!(stream, "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n")?;
                (0..pieces).try_for_each(|_| write!(stream, "3e8\r\n{}\r\n", "x".repeat(1000)))
            };
            sender.send(answer()).unwrap();
        }
    });
    ended
}

#[tokio::test]
async fn a_dropped_archive_ends_the_save() {
    let dir = tempfile::tempdir().unwrap();
    let ended = engine_that_saves(dir.path(), usize::MAX);
    let runtime = runtime_at(dir.path());
    let mut archive = runtime.save(&["engine:1".to_owned()]).await.unwrap();
    assert!(!archive.next().await.unwrap().unwrap().is_empty());
    drop(archive);
    let ended = tokio::task::spawn_blocking(move || ended.recv_timeout(PATIENCE));
    ended.await.unwrap().expect("it notices").unwrap_err();
}

#[tokio::test]
async fn an_archive_that_breaks_off_ends_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let _ended = engine_that_saves(dir.path(), 3);
    let runtime = runtime_at(dir.path());
    let archive = runtime.save(&["engine:1".to_owned()]).await.unwrap();
    let pieces: Vec<_> = archive.collect().await;
    let (last, before) = pieces.split_last().unwrap();
    assert!(matches!(last, Err(RuntimeError::Unreachable { .. })), "{last:?}");
    let sent: usize = before.iter().map(|it| it.as_ref().unwrap().len()).sum();
    assert_eq!(sent, 3000);
}

#[test]
fn a_host_of_another_kind_is_refused_at_once() {
    assert!(docker(Some("ssh://host"), new_owner()).is_err());
    assert!(docker(Some("/run/docker.sock"), new_owner()).is_err());
    assert!(docker(None, new_owner()).is_ok());
}
