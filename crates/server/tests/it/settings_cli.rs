//! The command line as an operator meets it: settings, their sources, and what a refusal to start says.

use std::{
    net::TcpListener,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use gantry_testkit::{Database, Options};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{GANTRY, gateway, start};

/// Longest time for saying something and ending.
const PATIENCE: Duration = gantry_testkit::PATIENCE;

/// What a run of the program said, and whether it was content.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program in `dir` with nothing but this environment.
pub(crate) fn gantry(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Said {
    let mut command = Command::new(GANTRY);
    command.args(args).env_clear().envs(env.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
    ended(dir, command)
}

fn ended(dir: &Path, mut command: Command) -> Said {
    let child = command.current_dir(dir).env("HOME", dir).stderr(Stdio::piped()).spawn().unwrap();
    let (pid, (done, ended)) = (child.id(), mpsc::channel());
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        Command::new("kill").arg(pid.to_string()).status().unwrap();
        panic!("it runs on: {command:?}");
    };
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

/// `serve` on free ports; only for starts that must fail.
pub(crate) fn refused(dir: &Path, env: &[(&str, &str)]) -> String {
    let ports = [("GATEWAY_LISTEN", "127.0.0.1:0"), ("METRICS_LISTEN", "127.0.0.1:0")];
    let said = gantry(dir, &["serve"], &[&ports[..], env].concat());
    assert!(!said.ok, "{env:?}: {}", said.out);
    assert_eq!(said.out, "", "nothing is announced");
    said.err
}

/// Returns the refusal of a start with sockets that the service manager opened.
fn refused_with_sockets(dir: &Path, addrs: [&str; 2], env: &[(&str, &str)]) -> String {
    // The shell puts them to where the program looks for them, under its own id.
    let hand_over = "exec 3<&0 4<&1 0</dev/null 1>/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:b; \
                     exec \"$0\" serve --metrics-listen 127.0.0.1:0";
    let mut command = Command::new("sh");
    command.args(["-c", hand_over, GANTRY]).env_clear().envs(env.iter().copied());
    let [first, second] = addrs.map(|it| Stdio::from(OwnedFd::from(TcpListener::bind(it).unwrap())));
    let said = ended(dir, {
        command.stdin(first).stdout(second);
        command
    });
    assert!(!said.ok, "{addrs:?}: {}", said.err);
    said.err
}

#[test]
fn it_says_its_version_and_how_it_is_used() {
    let dir = TempDir::new().unwrap();
    let version = gantry(dir.path(), &["--version"], &[]);
    assert_eq!((version.ok, version.out.as_str()), (true, "gantry 0.1.0\n"));
    let help = gantry(dir.path(), &["--help"], &[]);
    let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["serve", "settings", "engine-sim", "gantry serve --help", "Usage: gantry"] {
        assert!(help.ok && words.contains(part), "{part}: {}", help.out);
    }
    // On one screen: the settings are elsewhere.
    assert!(help.out.lines().count() < 60 && !help.out.contains("--gateway-listen"), "{}", help.out);
    let bare = gantry(dir.path(), &[], &[]);
    assert_eq!((bare.ok, bare.out), (true, gantry(dir.path(), &["-h"], &[]).out));
    let serve = gantry(dir.path(), &["serve", "--help"], &[]).out;
    for part in ["--demo", "--gateway-listen", "--database-url"] {
        assert!(serve.contains(part), "{part}: {serve}");
    }
    let doctor = gantry(dir.path(), &["doctor", "--help"], &[]).out;
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        doctor.contains("`gantry serve --help` lists them") && !doctor.contains("--drain-timeout-sec"),
        "{doctor}"
    );
    for (wrong, meant) in [
        ("--port", "--gateway-listen 127.0.0.1:8084"),
        ("--log-level", "--rust-log"),
        ("--data-dri", "--data-dir"),
    ] {
        let said = gantry(dir.path(), &["serve", wrong, "1"], &[]);
        assert!(!said.ok && said.err.contains(meant), "{wrong}: {}", said.err);
    }
    for wrong in [&["explode"][..], &["serve", "--no-such-flag"], &["settings", "--json", "x"]] {
        let said = gantry(dir.path(), wrong, &[]);
        assert!(!said.ok && said.out.is_empty() && said.err.contains(wrong[wrong.len() - 1]), "{}", said.err);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was written");
}

const SECRETS: [(&str, &str); 5] = [
    ("SESSION_SECRET", "session-secret-0001"),
    ("INTERNAL_ENGINE_API_KEY", "engine-secret-00002"),
    ("ADMIN_BOOTSTRAP_PASSWORD", "owner-secret-000003"),
    ("DATABASE_URL", "postgres://gantry:database-secret-04@db.example/gantry"),
    ("REDIS_URL", "redis://:redis-secret-000005@cache.example:6379/2"),
];

pub(crate) fn settings(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Vec<Value> {
    let said = gantry(dir, &[&["settings", "--json"], args].concat(), env);
    assert!(said.ok, "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

pub(crate) fn row<'a>(rows: &'a [Value], name: &str) -> (&'a str, &'a str) {
    let row = rows.iter().find(|it| it["name"] == name).unwrap();
    (row["value"].as_str().unwrap(), row["source"].as_str().unwrap())
}

#[test]
fn every_setting_is_shown_with_its_source_and_no_secret_is() {
    let dir = TempDir::new().unwrap();
    let env = [&SECRETS[..], &[("ADMIN_BOOTSTRAP_USERNAME", "root"), ("STOP_TIMEOUT_SEC", "20")]].concat();
    let rows = settings(dir.path(), &[], &env);
    let names: Vec<_> = rows.iter().map(|it| it["name"].as_str().unwrap()).collect();
    for name in [
        "GATEWAY_LISTEN",
        "METRICS_LISTEN",
        "DATA_DIR",
        "DATABASE_URL",
        "REDIS_URL",
        "RATE_LIMIT_RPM",
        "RATE_LIMIT_TPM",
        "RATE_LIMIT_MODE",
        "MAX_CONCURRENT_REQUESTS",
        "MODELS_DIR",
        "HUB_CACHE_DIR",
        "HUB_ENDPOINT",
        "ENGINE_IMAGE_ALLOWLIST",
        "CONTAINER_RUNTIME",
        "PRIMARY_ENGINE_IMAGE",
        "SECONDARY_ENGINE_IMAGE",
        "CONTAINER_HOST",
        "PRIMARY_STARTUP_TIMEOUT_SEC",
        "SECONDARY_STARTUP_TIMEOUT_SEC",
        "HEALTH_POLL_SEC",
        "MODEL_RECONCILE_SEC",
        "BREAKER_FAILURES",
        "BREAKER_COOLDOWN_SEC",
        "STOP_TIMEOUT_SEC",
        "REQUEST_MAX_BODY_BYTES",
        "DRAIN_TIMEOUT_SEC",
        "USAGE_RETENTION_DAYS",
        "SESSION_TTL_HOURS",
        "TRUSTED_PROXIES",
        "ALLOWED_HOSTS",
        "LOG_FORMAT",
        "RUST_LOG",
        "OFFLINE_MODE",
        "OFFLINE_MODE_AUTO_DETECT",
        "REQUIRE_IMAGE_PRECACHE",
        "IMAGE_PULL_TIMEOUT",
        "STOP_MODELS_ON_SHUTDOWN",
        "GATEWAY_DEV_ALLOW_ALL_KEYS",
        "CORS_ALLOW_ORIGINS",
        "SESSION_SECRET",
        "SESSION_COOKIE_SECURE",
        "INTERNAL_ENGINE_API_KEY",
        "ADMIN_BOOTSTRAP_USERNAME",
        "ADMIN_BOOTSTRAP_PASSWORD",
    ] {
        assert_eq!(names.iter().filter(|it| **it == name).count(), 1, "{name}");
    }
    let keys = ["name", "group", "doc", "allowed", "default", "value", "source"];
    assert!(rows.iter().all(|it| it.as_object().unwrap().keys().eq(keys)), "{rows:?}");
    for (name, value) in [
        ("SESSION_SECRET", "***"),
        ("INTERNAL_ENGINE_API_KEY", "***"),
        ("ADMIN_BOOTSTRAP_PASSWORD", "***"),
        ("DATABASE_URL", "postgres://gantry:***@db.example/gantry"),
        ("REDIS_URL", "redis://:***@cache.example:6379/2"),
        ("ADMIN_BOOTSTRAP_USERNAME", "root"),
        ("STOP_TIMEOUT_SEC", "20"),
    ] {
        assert_eq!(row(&rows, name), (value, "environment"), "{name}");
    }
    assert_eq!(row(&rows, "GATEWAY_LISTEN"), ("127.0.0.1:8084", "default"));
    assert_eq!(row(&rows, "HEALTH_POLL_SEC"), ("15", "default"));

    let text = gantry(dir.path(), &["settings"], &env);
    assert!(text.ok && names.iter().all(|it| text.out.contains(&format!("  {it} "))), "{}", text.out);
    let line = text.out.lines().find(|it| it.contains("STOP_TIMEOUT_SEC")).unwrap();
    assert!(line.ends_with("20  (environment; default 10)"), "{line}");
    let json = serde_json::to_string(&rows).unwrap();
    for secret in ["session-secret", "engine-secret", "owner-secret", "database-secret", "redis-secret"] {
        assert!(
            !text.out.contains(secret) && !text.err.contains(secret) && !json.contains(secret),
            "{secret}"
        );
    }
}

const REFUSED: &[(&str, &str, &str)] = &[
    ("GATEWAY_LISTN", "x", "there is no setting GATEWAY_LISTN (environment); did you mean GATEWAY_LISTEN?"),
    ("GATEWAY_COMPLETELY_DIFFERENT", "x", "there is no setting GATEWAY_COMPLETELY_DIFFERENT (environment)"),
    ("GATEWAY_LISTEN", "8084", LISTEN),
    ("GATEWAY_LISTEN", "localhost:8084", LISTEN),
    ("METRICS_LISTEN", "127.0.0.1:99999", LISTEN),
    ("HEALTH_POLL_SEC", "0", SECONDS),
    ("STOP_TIMEOUT_SEC", "10s", SECONDS),
    ("DRAIN_TIMEOUT_SEC", "-1", SECONDS),
    ("OFFLINE_MODE", "maybe", "must be true or false"),
    ("PRIMARY_ENGINE_IMAGE", "bad image:::", "must be an image such as"),
    ("SECONDARY_ENGINE_IMAGE", "-x", "must be an image such as"),
    ("ENGINE_IMAGE_ALLOWLIST", "a b", "must be images separated by commas"),
    ("SESSION_COOKIE_SECURE", "TRUE!", "must be true or false"),
    ("DATAPLANE_THREADS", "many", "must be a whole number"),
    ("REQUEST_MAX_BODY_BYTES", "32MiB", "must be a whole number"),
    ("TRUSTED_PROXIES", "10.0.0.0/33", "must be IP addresses or CIDR ranges, comma-separated"),
    ("CORS_ALLOW_ORIGINS", "https://*.example.org", "must be origins such as https://ui.example.org"),
    ("CORS_ALLOW_ORIGINS", "ui.example.org", "must be origins such as https://ui.example.org"),
    ("CORS_ALLOW_ORIGINS", "https://ui.example.org/", "must be origins such as https://ui.example.org"),
    ("SESSION_SECRET", "short", "must be a secret of 16 to 512 printable characters"),
    ("CONTAINER_RUNTIME", "podman", "must be auto, docker or process"),
    ("LOG_FORMAT", "xml", "must be text or json"),
    ("RATE_LIMIT_MODE", "off", "must be enforce or shadow"),
    ("RATE_LIMIT_RPM", "-1", "must be a whole number"),
    ("REDIS_URL", "http://u:hunter2@h", "must be redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss://"),
    ("REDIS_URL", "rediss://u:hunter2@h/#insecure", "must be redis://USER:PASSWORD@HOST:PORT/DATABASE"),
    (
        "DATABASE_URL",
        "mysql://u:hunter2@h/d",
        "must be sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE",
    ),
    ("ADMIN_BOOTSTRAP_USERNAME", "root", "needs ADMIN_BOOTSTRAP_PASSWORD, and the reverse"),
    ("SESSION_SECRET_FILE", "/nonexistent", "can't read SESSION_SECRET_FILE"),
    ("DATA_DIR_FILE", "/run/secrets/x", "DATA_DIR can't be given as a file"),
    ("ADMIN_BOOTSTRAP_USERNAME_FILE", "/run/secrets/x", "ADMIN_BOOTSTRAP_USERNAME can't be given as a file"),
    ("APPLY_WAIT_SEC", "-1", "must be a whole number of seconds from 0 to 31,536,000"),
    ("BREAKER_FAILURES", "0", "must be a whole number of at least 1"),
    ("REQUEST_MAX_BODY_BYTES", "0", "must be a whole number of at least 1"),
    ("REQUEST_BODY_MEMORY_BYTES", "1000000", "must be at least REQUEST_MAX_BODY_BYTES"),
    ("SESSION_TTL_HOURS", "0", "must be a whole number of at least 1"),
    ("ALLOWED_HOSTS", "ai.example.org,http://x/", "must be host names such as ai.example.org"),
    ("ALLOWED_HOSTS", "ai.example.org:8084", "without scheme and port"),
    ("EXPORT_DIRS", "exports", "must be absolute paths"),
    ("RUST_LOG", "gantry=loudly", "must be as in info,gantry_control=debug"),
    ("HUB_ENDPOINT", "hub.example.org", "must be of the form https://host"),
    ("HUB_ENDPOINT", "ftp://hub.example.org", "must be of the form https://host"),
    // Typing errors of names that do not begin like ours.
    ("RATE_LIMT_RPM", "5", "did you mean RATE_LIMIT_RPM?"),
    ("SESION_SECRET_FILE", "/x", "did you mean SESSION_SECRET_FILE?"),
    ("MODELS_DRI", "/x", "did you mean MODELS_DIR?"),
    ("REDISS_URL", "redis://x", "did you mean REDIS_URL?"),
];
const LISTEN: &str = "must be an address such as 127.0.0.1:8084";
const SECONDS: &str = "must be a whole number of seconds from 1 to 31,536,000";

#[test]
fn what_is_unknown_or_malformed_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    for &(name, value, said) in REFUSED {
        for verb in ["serve", "settings"] {
            let said_now = gantry(dir.path(), &[verb], &[(name, value)]);
            assert!(!said_now.ok, "{name}={value}: {}", said_now.out);
            let first = said_now.err.lines().next().unwrap();
            assert!(
                first.starts_with("gantry: ") && first.contains(name) && first.contains(said),
                "{}",
                said_now.err
            );
            assert!(!said_now.err.contains("hunter2"), "{}", said_now.err);
        }
    }
    // In the file every name is ours.
    std::fs::write(dir.path().join(".env"), "HEALTH_POL_SEC=1\n").unwrap();
    let error = refused(dir.path(), &[]);
    assert!(
        error.contains("there is no setting HEALTH_POL_SEC (.env); did you mean HEALTH_POLL_SEC?"),
        "{error}"
    );
    std::fs::write(dir.path().join(".env"), "STOP_TIMEOUT_SEC=1\nnonsense\n").unwrap();
    assert!(refused(dir.path(), &[]).contains("line 2 of .env is not NAME=value"));
    std::fs::remove_file(dir.path().join(".env")).unwrap();

    let open = [("GATEWAY_LISTEN", "0.0.0.0:0"), ("GATEWAY_DEV_ALLOW_ALL_KEYS", "true")];
    let error = refused(dir.path(), &open);
    assert!(
        error.contains("GATEWAY_DEV_ALLOW_ALL_KEYS") && error.contains("GATEWAY_DEV_ALLOW_REMOTE=true"),
        "{error}"
    );
    for (first, second) in [("127.0.0.1:0", "0.0.0.0:0"), ("0.0.0.0:0", "127.0.0.1:0")] {
        let error = refused_with_sockets(dir.path(), [first, second], &open[1..]);
        assert!(
            error.contains("0.0.0.0:") && error.contains("GATEWAY_DEV_ALLOW_REMOTE=true"),
            "{first} {second}: {error}"
        );
    }
    let said = gantry(dir.path(), &["settings", "--health-poll-sec", "soon"], &[]);
    assert!(said.err.contains("HEALTH_POLL_SEC (from flag)"), "{}", said.err);
    assert!(!dir.path().join(".local").exists(), "a refused start writes nothing");
}

#[test]
fn variables_of_other_programs_are_none_of_its_business() {
    let dir = TempDir::new().unwrap();
    for name in [
        "DATABASE_URI",
        "REDIS_URI",
        "MODEL_DIR",
        "DATA_ROOT",
        "LOG_LEVEL",
        "XDG_DATA_DIRS",
        "RATE",
        "OFFLINE",
    ] {
        assert!(gantry(dir.path(), &["settings"], &[(name, "x")]).ok, "{name}");
    }
}

#[test]
fn a_secret_may_lie_in_a_file_whatever_names_the_file() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let secret = file("secret", "from-a-file-0000001\n");
    let database = file("database", "postgres://gantry:hunter2@db.example/gantry\n");
    let said = settings(dir.path(), &["--session-secret-file", &secret], &[]);
    assert_eq!(row(&said, "SESSION_SECRET"), ("***", "secret file"));
    let lines = format!("SESSION_SECRET_FILE={secret}\nDATABASE_URL_FILE={database}\n");
    std::fs::write(dir.path().join(".env"), lines).unwrap();
    let said = settings(dir.path(), &[], &[]);
    assert_eq!(row(&said, "SESSION_SECRET"), ("***", "secret file"));
    assert_eq!(row(&said, "DATABASE_URL"), ("postgres://gantry:***@db.example/gantry", "secret file"));
    // What comes first counts, file or not.
    let nearer = settings(dir.path(), &[], &[("SESSION_SECRET", "of-the-environment-1")]);
    assert_eq!(row(&nearer, "SESSION_SECRET"), ("***", "environment"));
    // Only of secrets.
    let error = gantry(dir.path(), &["settings"], &[("GATEWAY_LISTEN_FILE", &secret)]).err;
    assert!(error.contains("GATEWAY_LISTEN can't be given as a file"), "{error}");
}

#[test]
fn no_password_is_shown_wherever_an_address_has_it() {
    let dir = TempDir::new().unwrap();
    for (name, given, shown) in [
        (
            "DATABASE_URL",
            "postgres://db.example/gantry?user=me&password=hunter2&sslmode=require",
            "postgres://db.example/gantry?user=me&password=***&sslmode=require",
        ),
        (
            "DATABASE_URL",
            "postgres://me@db.example/g?p%61ssword=hunter2",
            "postgres://me:***@db.example/g?p%61ssword=***",
        ),
        ("DATABASE_URL", "postgres://me:a@hunter2@db.example/gantry", "postgres://me:***@db.example/gantry"),
        ("DATABASE_URL", "postgres://db.example/g?password=hunter2@x", "postgres://***"),
        ("DATABASE_URL", "sqlite:///var/lib/a@b/gantry.db", "sqlite:///var/lib/a@b/gantry.db"),
        ("REDIS_URL", "unix:///run/redis.sock?db=2&pass=hunter2", "unix:///run/redis.sock?db=2&pass=***"),
    ] {
        let rows = settings(dir.path(), &[], &[(name, given)]);
        assert_eq!(row(&rows, name), (shown, "environment"));
    }
}

#[test]
fn what_the_help_allows_is_allowed() {
    let dir = TempDir::new().unwrap();
    let rows =
        settings(dir.path(), &[], &[("APPLY_WAIT_SEC", "0"), ("HUB_ENDPOINT", "http://mirror.lan:8080/hub")]);
    assert_eq!(row(&rows, "APPLY_WAIT_SEC").0, "0");
    assert_eq!(row(&rows, "HUB_ENDPOINT").0, "http://mirror.lan:8080/hub");
}

#[test]
fn a_database_that_can_not_be_used_is_said_in_one_clear_line_without_its_password() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let junk = dir.path().join("junk.db");
    std::fs::write(&junk, "this is no database, but it is long enough to look like one").unwrap();
    let junk = format!("sqlite://{}", junk.display());
    for url in [
        "postgres://gantry:hunter2@127.0.0.1:1/gantry",
        "postgres://gantry:hunter2@host.invalid/gantry",
        "postgres://gantry:hunter2@[/gantry",
        "sqlite:///nonexistent/folder/gantry.db",
        "sqlite://",
        junk.as_str(),
    ] {
        let data = data.to_str().unwrap();
        let env = [("DATA_DIR", data), ("DATABASE_URL", url), ("DATABASE_WAIT_SEC", "0")];
        let error = refused(dir.path(), &env);
        let line = error.lines().find(|it| it.starts_with("gantry: "));
        assert_eq!(line, Some("gantry: can't open the database"), "{url}: {error}");
        assert!(error.contains("  because: "), "{url}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("panicked"), "{url}: {error}");
    }
}

#[test]
fn a_gpu_inventory_that_can_not_be_used_is_refused_by_the_name_of_its_setting() {
    let dir = TempDir::new().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("gpus.json"));
    for (text, said) in [
        (None, "can't read the file"),
        (Some("nvidia-smi"), "must hold a JSON list of GPUs"),
        (Some(r#"[{ "index": 0, "name": "x", "memory": 1 }]"#), "must hold a JSON list of GPUs"),
        (
            Some(r#"[{ "index": 0, "name": "x", "compute_capability": "new" }]"#),
            "GPU 0: `compute_capability`",
        ),
    ] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let env = [("DATA_DIR", data.to_str().unwrap()), ("GPU_INVENTORY_FILE", file.to_str().unwrap())];
        let error = refused(dir.path(), &env);
        assert!(error.contains("GPU_INVENTORY_FILE can't be used") && error.contains(said), "{error}");
    }
    assert!(!data.exists(), "a refused start writes nothing");
}

#[tokio::test]
async fn a_data_directory_and_a_port_serve_one_gateway() {
    for database in Database::one("a_data_directory_and_a_port_serve_one_gateway") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let other = TempDir::new().unwrap();
        let data = gateway.data_dir();
        // A database of its own, so that the directory is all that they share.
        let database = format!("sqlite://{}", other.path().join("gantry.db").display());
        let error = refused(
            other.path(),
            &[("DATA_DIR", data.to_str().unwrap()), ("DATABASE_URL", database.as_str())],
        );
        assert!(error.starts_with("gantry: another gateway uses DATA_DIR"), "{error}");

        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = busy.local_addr().unwrap().to_string();
        for name in ["GATEWAY_LISTEN", "METRICS_LISTEN"] {
            let error = refused(other.path(), &[(name, taken.as_str())]);
            assert!(
                error.contains(&format!("can't listen on {taken}")) && error.contains("in use"),
                "{error}"
            );
        }
        // Its own listeners share a port between them; nobody else's may join.
        let own = gateway.url.trim_start_matches("http://").to_owned();
        let error = refused(other.path(), &[("GATEWAY_LISTEN", own.as_str())]);
        assert!(error.contains(&format!("can't listen on {own}")) && error.contains("in use"), "{error}");
        assert_eq!(owner.get("/auth/me").await.status, 200, "the first one goes on");
        assert_eq!(gateway.client().get("/readyz").await.json["checks"]["usage_spool"], "ok");
    }
}

#[tokio::test]
async fn what_it_keeps_on_disk_is_for_its_user_alone() {
    let mut gateway = start(Options::bootstrap()).await;
    let data = gateway.data_dir();
    let mode = |path: &str| std::fs::metadata(data.join(path)).unwrap().permissions().mode() & 0o777;
    for (path, wanted) in [
        ("", 0o700),
        ("secrets", 0o700),
        ("secrets/session", 0o600),
        ("secrets/engine-key", 0o600),
        ("gantry.db", 0o600),
    ] {
        assert_eq!(mode(path), wanted, "{path:?}: {:o}", mode(path));
    }
    // Neither the secrets nor the password stand in the log.
    let log = gateway.log();
    for name in ["session", "engine-key"] {
        let secret = std::fs::read_to_string(data.join("secrets").join(name)).unwrap();
        assert!(secret.len() >= 32 && !log.contains(secret.trim()), "{name}");
    }
    assert!(!log.contains("owner-password"), "{log}");
    assert!(gateway.terminate(), "SIGTERM ends it with success");
}

/// Libraries write whole requests below `info`: environments of containers, with secrets, among them.
#[tokio::test]
async fn no_setting_makes_libraries_write_requests_into_the_log() {
    let loud = "info,sqlx::query=trace,hyper_util::client=trace,bollard::docker=trace,gantry_store=trace";
    let options = Options::default().env("RUST_LOG", loud).env("LOG_FORMAT", "json");
    let gateway = start(options.env("CONTAINER_HOST", "unix:///nonexistent.sock")).await;
    gateway.owner().await.get("/admin/users").await.expect(200);
    let log = gateway.log();
    for name in ["sqlx", "hyper", "bollard"] {
        assert!(!log.contains(&format!("\"target\":\"{name}")), "{log}");
    }
    assert!(log.contains("\"target\":\"gantry"), "{log}");
}

#[tokio::test]
async fn with_logs_in_json_everything_that_is_printed_is_json() {
    let gateway = start(Options { owner: false, ..Options::default() }.env("LOG_FORMAT", "json")).await;
    let token = gateway.setup_token().await;
    assert!(!token.is_empty() && !token.contains('"'), "{token}");
    for line in gateway.printed() {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["message"].is_string() && line["level"] == "INFO", "{line}");
    }
}

#[test]
fn what_is_not_text_is_passed_over_or_refused_with_words() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let dir = TempDir::new().unwrap();
    let junk = OsStr::from_bytes(b"\xff\xfe");
    let run = |verb: &str, args: &[&OsStr], env: &[(&OsStr, &OsStr)]| {
        let mut command = Command::new(GANTRY);
        command.arg(verb).args(args).current_dir(dir.path()).env_clear().env("HOME", dir.path());
        let output = command.envs(env.iter().copied()).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let name = OsStr::new;
    assert_eq!(
        run("settings", &[], &[(name("SOMEBODY_S"), junk), (junk, name("x"))]),
        (Some(0), String::new())
    );
    for ours in ["DATA_DIR", "SESSION_SECRET_FILE"] {
        let (code, said) = run("settings", &[], &[(name(ours), junk)]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("{ours} (from environment) must be UTF-8 text")), "{said}");
    }
    let (code, said) = run("settings", &[junk], &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("argument 2") && said.contains("is not UTF-8 text"), "{said}");
    let (code, said) = run("engine-sim", &[name("--help")], &[(name("SOMEBODY_S"), junk)]);
    assert!(code.is_some() && !said.contains("panicked"), "{said}");
}

#[test]
fn the_audit_tool_makes_and_changes_no_database() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("other.db");
    std::fs::write(&file, "").unwrap();
    let url = format!("sqlite://{}", file.display());
    for verb in ["verify", "export"] {
        let said = gantry(dir.path(), &["audit", verb], &[("DATABASE_URL", &url)]);
        assert!(!said.ok, "{}", said.out);
        assert!(said.err.contains("it has no tables of Gantry"), "{}", said.err);
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 0, "{verb}: it is as it was");
    }
}
