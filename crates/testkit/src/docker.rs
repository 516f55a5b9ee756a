//! The Docker engine as an operator sees it, through its own command line.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::Path,
    process::Command,
};

use gantry_domain::{Clock, Role, model::ModelDraft};
use gantry_store::Store;
use serde_json::{Value, json};

/// Images of the engine simulator, as `gantry engine-sim image` loads them.
pub const SIM_VLLM: &str = "gantry/engine-sim-vllm:0.32.0";
pub const SIM_LLAMACPP: &str = "gantry/engine-sim-llamacpp:b11434";

/// Model ids that a gateway under test may use up.
const IDS: i64 = 40;
/// Below are those of a gateway that somebody runs on the same Docker engine.
const FIRST_ID: i64 = 101;

/// Whether a Docker engine answers; skips `test` otherwise. Blocking, a few milliseconds.
pub fn docker(test: &str) -> bool {
    match Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]).output() {
        Ok(output) if output.status.success() => true,
        _ => crate::skip(test, "no Docker engine answers"),
    }
}

/// The same, and the simulator's images are there and made from `program`.
pub fn simulator(program: &str, test: &str) -> bool {
    if !docker(test) {
        return false;
    }
    let made_from = fs::metadata(program).and_then(|it| it.modified()).unwrap();
    let stamp = format!("{program} {made_from:?} {:?}\n", std::env::var("DOCKER_HOST"));
    let inspect = || Command::new("docker").args(["image", "inspect", SIM_VLLM, SIM_LLAMACPP]).output();
    // Tests are processes: one of them makes the images, the others wait for it.
    let path = std::env::temp_dir().join("gantry-test-images");
    let mut lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).unwrap();
    lock.lock().unwrap();
    if fs::read_to_string(&path).unwrap() != stamp || !inspect().is_ok_and(|it| it.status.success()) {
        let made = Command::new(program).args(["engine-sim", "image"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        lock.set_len(0).unwrap();
        lock.write_all(stamp.as_bytes()).unwrap();
    }
    true
}

/// Runs `docker` and gives its output; fails the test if it fails.
pub fn docker_cli(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().expect("docker is installed");
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// What `docker inspect` says; `None` if there is no such container.
pub fn inspect(container: &str) -> Option<Value> {
    let output = Command::new("docker").args(["container", "inspect", container]).output().unwrap();
    let mut all: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
    all.pop()
}

/// A container that no gateway made; removed with this value.
pub struct Foreign(pub String);

impl Foreign {
    /// Runs `image` under `name` with these options of `docker run`.
    pub fn run(name: &str, options: &[&str], image: &str, args: &[&str]) -> Self {
        let run = [&["run", "-d", "--name", name], options, &[image], args].concat();
        Self(docker_cli(&run))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

pub(crate) fn remove(container: &str) {
    let _ = Command::new("docker").args(["rm", "-f", "-v", container]).output();
}

/// Containers are named after model ids and a Docker engine has each name once, so gateways that are tested at the
/// same time need ids of their own. A range of them, held as long as this value.
pub(crate) struct IdRange {
    pub(crate) first: i64,
    _lock: File,
}

impl IdRange {
    pub(crate) fn take() -> Self {
        let mut first = FIRST_ID;
        loop {
            let path = std::env::temp_dir().join(format!("gantry-test-ids-{first}"));
            let lock = OpenOptions::new().create(true).append(true).open(path).unwrap();
            if lock.try_lock().is_ok() {
                clear(first..first + IDS);
                return Self { first, _lock: lock };
            }
            first += IDS;
        }
    }
}

/// Removes what a test that was killed left over. Told from a real gateway's containers by their models directory.
fn clear(ids: std::ops::Range<i64>) {
    let format = "{{.ID}} {{.Label \"gantry.model_id\"}}";
    let ps = ["ps", "-a", "--filter", "label=gantry.model_id", "--format", format];
    let Ok(all) = Command::new("docker").args(ps).output() else { return };
    for line in String::from_utf8_lossy(&all.stdout).lines() {
        let Some((id, model)) = line.split_once(' ') else { continue };
        let ours = model.parse().is_ok_and(|it: i64| ids.contains(&it));
        if ours && inspect(id).is_some_and(|it| mounts_temporary(&it)) {
            remove(id);
        }
    }
}

fn mounts_temporary(container: &Value) -> bool {
    let mut mounts = container["Mounts"].as_array().into_iter().flatten();
    mounts.any(|it| it["Source"].as_str().is_some_and(|it| Path::new(it).starts_with(std::env::temp_dir())))
}

/// Makes the first model of the database at `url` get the id `first`.
pub(crate) async fn begin_ids_at(first: i64, url: &str) {
    let body = json!({ "served_name": "x", "engine_type": "vllm", "local_path": "x", "archived": true });
    let draft = ModelDraft::create(body.as_object().unwrap(), Role::Owner).unwrap();
    let store = Store::open(url).await.unwrap();
    let mut tx = store.write().await.unwrap();
    loop {
        let id = tx.insert_model(&draft, Clock::default().now()).await.unwrap().id;
        tx.delete_model(id).await.unwrap();
        if id.0 + 1 >= first {
            break;
        }
    }
    tx.commit().await.unwrap();
    store.close().await;
}

/// Copies the file or folder `name` of `from` to `to`.
pub fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
}
