//! The Docker engine as an operator sees it, through its own command line.

use std::{
    fs::{self, File, OpenOptions},
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::Value;

/// Suffix of this checkout's image names, so that checkouts on one Docker engine don't replace each other's images.
static CHECKOUT: LazyLock<String> = LazyLock::new(|| {
    let program = std::env::current_exe().unwrap();
    let mut hasher = DefaultHasher::new();
    program.parent().hash(&mut hasher);
    format!("{:08x}", hasher.finish() >> 32)
});
static SIM_VLLM: LazyLock<String> =
    LazyLock::new(|| format!("localhost/gantry-engine-sim-vllm:0.32.0-test-{}", *CHECKOUT));
static SIM_LLAMACPP: LazyLock<String> =
    LazyLock::new(|| format!("localhost/gantry-engine-sim-llamacpp:b11434-test-{}", *CHECKOUT));

/// The image of the simulated vLLM.
pub fn sim_vllm() -> &'static str {
    &SIM_VLLM
}

/// The image of the simulated llama.cpp.
pub fn sim_llamacpp() -> &'static str {
    &SIM_LLAMACPP
}

/// Number of model ids that a gateway under test may use.
const IDS: i64 = 40;
/// First model id of tests. Smaller ids belong to a real gateway that may run on the same Docker engine.
const FIRST_ID: i64 = 1_000_000;
/// Number of id ranges. It is so large that tests which draw a range at the same time get different ones, on any
/// machine.
const RANGES: u128 = 20_000_000;

/// Whether a Docker engine answers; skips `test` otherwise. Blocking, a few milliseconds.
pub fn docker(test: &str) -> bool {
    match Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]).output() {
        Ok(output) if output.status.success() => true,
        _ => crate::skip(test, "no Docker engine answers"),
    }
}

/// Returns whether a Docker engine answers (skips `test` otherwise), and makes sure that it has the simulator's images,
/// made from `program`.
pub fn simulator(program: &str, test: &str) -> bool {
    if !docker(test) {
        return false;
    }
    let made_from = fs::metadata(program).and_then(|it| it.modified()).unwrap();
    let stamp = format!("{program} {made_from:?} {:?}\n", std::env::var("DOCKER_HOST"));
    let inspect = || Command::new("docker").args(["image", "inspect", sim_vllm(), sim_llamacpp()]).output();
    // Tests are processes. One of them makes the images, and the others wait for it.
    let path = std::env::temp_dir().join(format!("gantry-test-images-{}", *CHECKOUT));
    let mut lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).unwrap();
    lock.lock().unwrap();
    if fs::read_to_string(&path).unwrap() != stamp || !inspect().is_ok_and(|it| it.status.success()) {
        make_images(program, None);
        lock.set_len(0).unwrap();
        lock.write_all(stamp.as_bytes()).unwrap();
    }
    true
}

/// Makes the simulator's images from `program`, on the Docker engine at `host`.
pub(crate) fn make_images(program: &str, host: Option<&str>) {
    for (flavour, tag) in [("vllm", sim_vllm()), ("llamacpp", sim_llamacpp())] {
        let mut image = Command::new(program);
        image.args(["engine-sim", "image", "--flavour", flavour, "--tag", tag]);
        let made = image.envs(host.map(|it| ("DOCKER_HOST", it))).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

/// Runs `docker` and returns its output; fails the test if the command fails.
pub fn docker_cli(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().expect("docker is installed");
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns the output of `docker inspect`; `None` if there is no such container.
pub fn inspect(container: &str) -> Option<Value> {
    let output = Command::new("docker").args(["container", "inspect", container]).output().unwrap();
    let mut all: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
    all.pop()
}

/// A container that no gateway made. Dropping this value removes it.
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

/// Removes the networks of the gateway with this id that nothing uses.
pub(crate) fn remove_networks(instance: &str) {
    let mine = format!("label=gantry.instance={instance}");
    let Ok(found) = Command::new("docker").args(["network", "ls", "-q", "--filter", &mine]).output() else {
        return;
    };
    for id in String::from_utf8_lossy(&found.stdout).split_whitespace() {
        let _ = Command::new("docker").args(["network", "rm", id]).output();
    }
}

/// A range of model ids, drawn at random; a locked file marks it as in use. Containers are named after model ids and a
/// Docker engine has each name once, so gateways that are tested at the same time need ids of their own.
pub(crate) struct IdRange {
    pub(crate) first: i64,
    path: PathBuf,
    _lock: File,
}

const ID_FILES: &str = "gantry-test-ids-from-";

impl IdRange {
    pub(crate) fn take() -> Self {
        Self::clear_after_the_dead();
        let range = i64::try_from(uuid::Uuid::now_v7().as_u128() % RANGES).unwrap();
        let first = FIRST_ID + range * IDS;
        // The file has another name until it is locked, so that no other test takes it for one that a killed test left.
        let new = std::env::temp_dir().join(format!("gantry-test-new-ids-{first}"));
        let lock = OpenOptions::new().create(true).append(true).open(&new).unwrap();
        lock.lock().unwrap();
        let path = std::env::temp_dir().join(format!("{ID_FILES}{first}"));
        fs::rename(&new, &path).unwrap();
        Self { first, path, _lock: lock }
    }

    /// Removes the containers of tests that were killed.
    fn clear_after_the_dead() {
        for entry in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(first) = name.strip_prefix(ID_FILES).and_then(|it| it.parse::<i64>().ok()) else {
                continue;
            };
            let Ok(lock) = File::open(entry.path()) else { continue };
            if lock.try_lock().is_ok() {
                clear(first..first + IDS);
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for IdRange {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the containers of these models. It tells them from a real gateway's containers by their models directory.
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
