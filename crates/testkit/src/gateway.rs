//! The real `gantry` as a child process, with a data directory and a database of its own.

use std::{
    io::{BufRead, BufReader},
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    Client, database,
    docker::{self, IdRange},
    docker_cli,
    options::{Database, ModelIds, OWNER, Options},
    process,
};

/// Longest time to be ready; the machine may be busy with other tests.
const READY: Duration = crate::PATIENCE;
/// Longest wait for the gateway to end. With a database that hangs it takes 40 s by itself.
const ENDS: Duration = crate::PATIENCE;

/// A running gateway. Dropping this value ends it, and removes its containers.
pub struct Gateway {
    program: PathBuf,
    options: Options,
    dir: TempDir,
    child: Child,
    /// `http://127.0.0.1:port`
    pub url: String,
    /// The lines that the gateway prints.
    printed: Printed,
    postgres_schema: Option<Schema>,
    /// Given back last, when the containers are gone.
    _ids: Option<IdRange>,
}

impl Gateway {
    /// Starts `program` (`env!("CARGO_BIN_EXE_gantry")`) and waits until it is ready.
    pub async fn start(program: &str, options: Options) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("models")).unwrap();
        // This folder is for models that are never started.
        std::fs::create_dir(dir.path().join("models/m")).unwrap();
        let postgres_schema = match options.database {
            Database::Sqlite => None,
            Database::Postgres => Some(Schema::create()),
        };
        let ids = (options.model_ids == ModelIds::Own).then(IdRange::take);
        let first = match options.model_ids {
            ModelIds::From(first) => Some(first),
            _ => ids.as_ref().map(|it| it.first),
        };
        prepare(&options, first, &dir, postgres_schema.as_ref()).await;
        let Started { child, url, printed } = spawn(program, &options, &dir, postgres_schema.as_ref()).await;
        Self { program: program.into(), options, dir, child, url, printed, postgres_schema, _ids: ids }
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the address of its database, for another gateway on the same one; `None` if it is a file.
    pub fn database_url(&self) -> Option<String> {
        self.postgres_schema.as_ref().map(Schema::url)
    }

    /// Returns the models base directory.
    pub fn models_dir(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    /// Changes a setting for the next start.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.options.env.insert(name.to_owned(), value.to_owned());
    }

    /// Returns the id of the gateway's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the gateway with SIGKILL and starts it again on the same data.
    pub async fn kill_and_restart(&mut self) {
        self.kill();
        self.restart().await;
    }

    /// Kills the gateway with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again on the same data, after [`Gateway::kill`] or [`Gateway::terminate`].
    pub async fn restart(&mut self) {
        let program = self.program.to_str().unwrap().to_owned();
        let started = spawn(&program, &self.options, &self.dir, self.postgres_schema.as_ref()).await;
        (self.child, self.url, self.printed) = (started.child, started.url, started.printed);
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the gateway has ended, and returns whether it ended with success.
    pub async fn ended(&mut self) -> bool {
        let ended = async || self.child.try_wait().unwrap();
        crate::eventually("the gateway ends", ENDS, ended).await.success()
    }

    /// Sends SIGTERM, waits, and returns whether the gateway ended with success.
    pub fn terminate(&mut self) -> bool {
        self.signal("TERM");
        let ended = process::ends_within(&mut self.child, ENDS);
        ended.expect("the gateway ends after SIGTERM").success()
    }

    /// Returns a client without a session.
    pub fn client(&self) -> Client {
        Client::new(&self.url)
    }

    /// Returns a client that is signed in.
    pub async fn sign_in(&self, username: &str, password: &str) -> Client {
        let client = self.client();
        let answer = client.post("/auth/login", &json!({ "username": username, "password": password })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        client
    }

    /// Returns the setup token that the gateway prints while there is no owner. Fails if there is one.
    pub async fn setup_token(&self) -> String {
        let token = async || self.printed.word_after("#setup=", "");
        crate::eventually("a token is printed", READY, token).await
    }

    /// Returns the lines of its standard output so far.
    pub fn printed(&self) -> Vec<String> {
        self.printed.lines().clone()
    }

    /// Returns a client that is signed in as the owner of [`Options::owner`].
    pub async fn owner(&self) -> Client {
        self.sign_in(OWNER.0, OWNER.1).await
    }

    /// Returns a client of this gateway with the key of a client of another gateway.
    pub fn client_of(&self, other: &Client) -> Client {
        other.at(&self.url)
    }

    /// Returns what the gateway has logged so far; nothing if the log is not a file ([`Options::stderr`]).
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Returns the ids of its containers, found by their label.
    pub fn containers(&self) -> Vec<String> {
        let mine = format!("label=gantry.instance={}", self.instance());
        let ids = docker_cli(&["ps", "-aq", "--no-trunc", "--filter", &mine]);
        ids.lines().map(str::to_owned).collect()
    }

    /// Returns the folder with the record, the state and the log of an engine that is a process.
    pub fn engine_dir(&self, name: &str) -> PathBuf {
        self.data_dir().join("run").join(name)
    }

    /// Returns the state that the supervisor of an engine wrote; `None` if there is none.
    pub fn engine_state(&self, name: &str) -> Option<serde_json::Value> {
        let text = std::fs::read(self.engine_dir(name).join("state.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns the id of this installation, as in the label of its containers.
    pub fn instance(&self) -> String {
        std::fs::read_to_string(self.data_dir().join("instance")).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the gateway ---\n{}", self.log());
        }
        let instance = self.instance();
        if !instance.is_empty() {
            crate::engine_processes(&instance).into_iter().for_each(crate::kill_process);
            let mine = format!("label=gantry.instance={instance}");
            if let Ok(found) = Command::new("docker").args(["ps", "-aq", "--filter", &mine]).output() {
                String::from_utf8_lossy(&found.stdout).split_whitespace().for_each(docker::remove);
            }
            docker::remove_networks(&instance);
        }
        if let Some(Schema { server, name }) = &self.postgres_schema {
            let drop = format!("DROP SCHEMA {name} CASCADE");
            let _ = Command::new("psql").args([server.as_str(), "-qc", &drop]).output();
        }
    }
}

/// A schema of a Postgres server.
struct Schema {
    /// Address of the server.
    server: String,
    name: String,
}

impl Schema {
    /// Creates a fresh schema in `TEST_POSTGRES_URL`.
    fn create() -> Self {
        let server = std::env::var("TEST_POSTGRES_URL").expect("TEST_POSTGRES_URL is set");
        let name = format!("t_{}", uuid::Uuid::now_v7().simple());
        let made =
            Command::new("psql").args([server.as_str(), "-qc", &format!("CREATE SCHEMA {name}")]).output();
        let made = made.expect("psql is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { server, name }
    }

    /// Returns the address of a database that has only this schema.
    fn url(&self) -> String {
        format!("{}?options=-csearch_path%3D{}", self.server, self.name)
    }
}

/// Makes what the database has before the gateway's first start.
async fn prepare(options: &Options, first_model: Option<i64>, dir: &TempDir, schema: Option<&Schema>) {
    // A database that the test names itself is its own.
    let owner = options.owner && !["DATABASE_URL", "DATA_DIR"].iter().any(|it| options.env.contains_key(*it));
    if !owner && first_model.is_none() {
        return;
    }
    std::fs::create_dir(dir.path().join("data")).unwrap();
    let file = dir.path().join("data/gantry.db");
    let url = schema.map_or_else(|| format!("sqlite://{}", file.display()), Schema::url);
    match schema {
        None if owner => database::sqlite_with_owner(&file).await,
        Some(_) if owner => database::with_owner(&url).await,
        _ => {}
    }
    if let Some(first) = first_model {
        database::begin_ids_at(first, &url).await;
    }
}

/// A gateway that is ready.
struct Started {
    child: Child,
    url: String,
    printed: Printed,
}

/// Starts the program and waits until it is ready.
async fn spawn(program: &str, options: &Options, dir: &TempDir, schema: Option<&Schema>) -> Started {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.path().join("log")).unwrap();
    let (mut command, stdin) = command(program, options);
    command.arg("serve").current_dir(dir.path());
    set_environment(&mut command, program, options, dir);
    if let Some(schema) = schema {
        command.env("DATABASE_URL", schema.url());
    }
    let stderr = match &options.stderr {
        Some(stderr) => Stdio::from(stderr.try_clone().unwrap()),
        None => Stdio::from(log),
    };
    command.envs(&options.env).stdin(stdin).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().expect("the program starts");
    let printed = Printed::follow(child.stdout.take().unwrap());
    let deadline = Instant::now() + READY;
    let url = loop {
        // This is read before the printed lines are searched, so that the last search sees all lines.
        let over = printed.ended.load(Acquire) || Instant::now() >= deadline;
        if let Some(url) = printed.word_after("UI and API", "http://") {
            break url;
        }
        if over {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it does not get ready:\n{}", std::fs::read_to_string(dir.path().join("log")).unwrap());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    Started { child, url: url.trim_end_matches('/').to_owned(), printed }
}

/// Returns the command that runs the program, with its wrapper, and what its standard input has to be.
fn command(program: &str, options: &Options) -> (Command, Stdio) {
    let words: Vec<&str> = options.wrapper.iter().map(String::as_str).chain([program]).collect();
    match &options.listener {
        None => {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            (command, Stdio::null())
        }
        Some(listener) => {
            // The shell moves its standard input to the descriptor where the program looks for the socket, and sets
            // `LISTEN_PID` to its own id, which the program keeps.
            let hand_over = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";
            let mut command = Command::new("sh");
            command.args(["-c", hand_over]).args(&words);
            (command, Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
        }
    }
}

/// Sets the variables that all gateways under test have.
fn set_environment(command: &mut Command, program: &str, options: &Options, dir: &TempDir) {
    command.env_clear();
    // The gateway gets only these variables of the environment; a developer's own settings must not leak in.
    for name in ["PATH", "HOME", "DOCKER_HOST", "TMPDIR"] {
        if let Ok(value) = std::env::var(name) {
            command.env(name, value);
        }
    }
    command
        .env("GANTRY_SETTINGS_FILE", "")
        .env("GATEWAY_LISTEN", "127.0.0.1:0")
        .env("METRICS_LISTEN", "127.0.0.1:0")
        .env("DATA_DIR", dir.path().join("data"))
        .env("MODELS_DIR", dir.path().join("models"))
        .env("DATAPLANE_THREADS", "2")
        // Gateways on one Postgres need the same key.
        .env("SECRETS_KEY", "5eed".repeat(16))
        .env("RUST_LOG", "info,gantry=debug")
        // Only what is named here is simulated: these images and these programs.
        .env("ENGINE_IMAGE_ALLOWLIST", format!("{},{}", docker::sim_vllm(), docker::sim_llamacpp()))
        .env("PRIMARY_ENGINE_COMMAND", format!("{program} engine-sim --flavour vllm"))
        .env("SECONDARY_ENGINE_COMMAND", format!("{program} engine-sim --flavour llamacpp"));
    if options.owner {
        command.env("ADMIN_BOOTSTRAP_USERNAME", OWNER.0).env("ADMIN_BOOTSTRAP_PASSWORD", OWNER.1);
    }
}

/// The lines of a program's standard output so far.
#[derive(Debug, Clone, Default)]
struct Printed {
    lines: Arc<Mutex<Vec<String>>>,
    /// Whether the output has ended.
    ended: Arc<AtomicBool>,
}

impl Printed {
    /// Reads a program's output to the end, so that the program never blocks on a full pipe.
    fn follow(stdout: ChildStdout) -> Self {
        let printed = Self::default();
        let to = printed.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                to.lines().push(line);
            }
            to.ended.store(true, Release);
        });
        printed
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap()
    }

    /// Returns the first word that begins with `start` behind `mark`.
    fn word_after(&self, mark: &str, start: &str) -> Option<String> {
        self.lines().iter().find_map(|line| word(line.split_once(mark)?.1, start))
    }
}

/// Returns the first word of `text` that begins with `start`.
fn word(text: &str, start: &str) -> Option<String> {
    // A line of JSON goes on behind the word with a quotation mark.
    let mut words = text.split(|it: char| it.is_whitespace() || it == '"').filter(|it| !it.is_empty());
    words.find(|it| it.starts_with(start)).map(str::to_owned)
}
