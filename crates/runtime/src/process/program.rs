//! Programs in the place of images: which there are, where they lie and what version they are.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use gantry_domain::{Timestamp, model::EngineKind};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use tokio::{io::AsyncReadExt, process::Command, time::timeout};

use crate::ImageInfo;

/// vLLM loads half of Python to say its version.
const ASK_VERSION: Duration = Duration::from_secs(20);
/// More than this of an answer is not read.
const MAX_ANSWER: u64 = 64 << 10;

/// What starts an engine. The operator of the machine names it, never a model's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Stands where an image's name stands with containers.
    pub reference: String,
    /// The program (a path, or a name that is looked up in `PATH`) and its first arguments; not empty.
    pub words: Vec<String>,
    pub engine: EngineKind,
    /// Gantry's engine simulator, not a real engine.
    pub simulator: bool,
}

/// The programs of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// For models that don't ask for a simulator; one for each engine.
    pub engines: [Program; 2],
    /// For models whose `engine_image` is a simulator's; one for each engine.
    pub simulators: [Program; 2],
}

impl Programs {
    /// The program for a model of `engine` whose `engine_image` is `wished`. Images mean nothing here, but those of
    /// the simulator: a model that is meant to be simulated must not meet a real engine.
    pub fn of(&self, engine: EngineKind, wished: Option<&str>) -> &Program {
        let pair = match wished {
            Some(wished) if self.simulators.iter().any(|it| it.reference == wished) => &self.simulators,
            _ => &self.engines,
        };
        if pair[0].engine == engine { &pair[0] } else { &pair[1] }
    }

    pub(super) fn named(&self, reference: &str) -> Option<&Program> {
        self.engines.iter().chain(&self.simulators).find(|it| it.reference == reference)
    }
}

impl Program {
    /// The file that would be run; `None` if there is none that can be. `path` is a `PATH`.
    pub fn find(&self, path: &str) -> Option<PathBuf> {
        let name = self.words.first()?;
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|it| is_program(it));
        }
        // An empty or relative entry means the current directory, which is nobody's choice.
        let dirs = path.split(':').filter(|it| it.starts_with('/'));
        dirs.map(|dir| Path::new(dir).join(name)).find(|it| is_program(it))
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Versions by the identity of their program, so that each is asked once.
#[derive(Debug, Default)]
pub(super) struct Versions(Mutex<HashMap<String, Option<String>>>);

impl Versions {
    /// What is known of the program at `file`.
    pub(super) async fn describe(
        &self,
        program: &Program,
        file: &Path,
        environment: &[(String, String)],
    ) -> Option<ImageInfo> {
        let seen = fs::metadata(file).ok()?;
        let id = identity(program, file, &seen);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let version_label = if let Some(version) = known {
            version
        } else {
            let version = version(program, file, environment).await;
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), version.clone());
            version
        };
        Some(ImageInfo {
            id,
            size_bytes: i64::try_from(seen.len()).unwrap_or(i64::MAX),
            created: Some(Timestamp(seen.mtime().saturating_mul(1000)).rfc3339()),
            version_label,
            simulator: program.simulator,
        })
    }
}

/// Changes when another program takes the place: SHA-256 over command, size and time of change.
fn identity(program: &Program, file: &Path, seen: &fs::Metadata) -> String {
    let mut hash = Sha256::new();
    for part in program.words.iter().map(String::as_bytes).chain([file.as_os_str().as_encoded_bytes()]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    for number in [seen.size() as i64, seen.mtime(), seen.mtime_nsec()] {
        hash.update(number.to_le_bytes());
    }
    hash.finalize().iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

async fn version(program: &Program, file: &Path, environment: &[(String, String)]) -> Option<String> {
    if program.engine == EngineKind::Vllm
        && let Some(version) = installed_beside(file)
    {
        return Some(version);
    }
    // `vllm serve` without its last word; the simulator's words are all needed.
    let arguments = program.words[1..].iter().filter(|it| *it != "serve");
    let mut command = Command::new(file);
    command.args(arguments).arg("--version").env_clear().envs(environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().ok()?;
    let group = Group(child.id().and_then(|it| Pid::from_raw(it.cast_signed())));
    let (mut out, mut err) = (String::new(), String::new());
    let streams = (child.stdout.take()?.take(MAX_ANSWER), child.stderr.take()?.take(MAX_ANSWER));
    let (mut from_out, mut from_err) = streams;
    let asked = async {
        let ended = async {
            let ended = child.wait().await;
            // A script may have left something running that holds the pipes.
            drop(group);
            ended
        };
        tokio::join!(from_out.read_to_string(&mut out), from_err.read_to_string(&mut err), ended)
    };
    let (_, _, ended) = timeout(ASK_VERSION, asked).await.ok()?;
    ended.ok()?;
    in_output(program.engine, &format!("{out}\n{err}"))
}

/// Ends with all its processes when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// The version of the vLLM in the environment that `file` belongs to, from the name of the package's folder:
/// `…/bin/vllm` and `…/lib/python3.12/site-packages/vllm-0.32.0.dist-info`.
fn installed_beside(file: &Path) -> Option<String> {
    let lib = file.parent()?.parent()?.join("lib");
    let pythons =
        fs::read_dir(lib).ok()?.flatten().filter(|it| it.file_name().to_string_lossy().starts_with("python"));
    let mut packages =
        pythons.filter_map(|it| fs::read_dir(it.path().join("site-packages")).ok()).flatten().flatten();
    packages.find_map(|it| package_version(it.file_name().to_str()?))
}

fn package_version(folder: &str) -> Option<String> {
    Some(folder.strip_prefix("vllm-")?.strip_suffix(".dist-info")?.to_owned())
}

/// In the engines' own words: of llama-server `version: 5000 (0123abc)`, in newer builds
/// `version: 0.6.0-dev (build 11434, commit 0123abc)`; of vLLM `0.32.0` or `vLLM 0.32.0`.
fn in_output(engine: EngineKind, text: &str) -> Option<String> {
    match engine {
        EngineKind::Llamacpp => {
            let rest = text.lines().find_map(|it| it.trim().strip_prefix("version: "))?;
            let build = rest.split_once("(build ").map_or(rest, |(_, build)| build);
            let build: u32 = build.split([' ', ',', ')']).next()?.parse().ok()?;
            Some(format!("b{build}"))
        }
        EngineKind::Vllm => {
            let looks_right = |it: &&str| it.starts_with(|it: char| it.is_ascii_digit()) && it.contains('.');
            text.split_whitespace().find(looks_right).map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_engines_print_them() {
        for (llama, build) in [
            (
                "version: 5000 (8f3c1a2)\nbuilt with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu\n",
                "b5000",
            ),
            (
                "version: 0.6.0-dev (build 11434, commit unknown)\nbuilt with GNU 12.2.0 for Linux x86_64",
                "b11434",
            ),
        ] {
            assert_eq!(in_output(EngineKind::Llamacpp, llama).as_deref(), Some(build));
        }
        assert_eq!(in_output(EngineKind::Vllm, "INFO loading\n0.32.0+cpu\n").as_deref(), Some("0.32.0+cpu"));
        assert_eq!(in_output(EngineKind::Llamacpp, "error: unknown argument"), None);
        assert_eq!(package_version("vllm-0.32.0.dist-info").as_deref(), Some("0.32.0"));
        assert_eq!(package_version("vllm_metal-0.1.dist-info"), None);
    }

    #[test]
    fn a_vllm_in_an_environment_of_its_own_is_not_run_to_learn_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let packages = dir.path().join("lib/python3.12/site-packages");
        fs::create_dir_all(packages.join("vllm-0.24.1.dist-info")).unwrap();
        fs::create_dir_all(packages.join("torch-2.0.dist-info")).unwrap();
        assert_eq!(installed_beside(&dir.path().join("bin/vllm")).as_deref(), Some("0.24.1"));
    }

    #[test]
    fn a_name_is_looked_up_in_absolute_folders_only_and_must_be_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, good) = (dir.path().join("plain"), dir.path().join("good"));
        for it in [&plain, &good] {
            fs::create_dir(it).unwrap();
            fs::write(it.join("llama-server"), "").unwrap();
        }
        fs::set_permissions(good.join("llama-server"), fs::Permissions::from_mode(0o755)).unwrap();
        let program = |word: &str| Program {
            reference: "x".to_owned(),
            words: vec![word.to_owned()],
            engine: EngineKind::Llamacpp,
            simulator: false,
        };
        let path = format!(".::{}:{}", plain.display(), good.display());
        assert_eq!(program("llama-server").find(&path), Some(good.join("llama-server")));
        assert_eq!(program(plain.join("llama-server").to_str().unwrap()).find(&path), None);
        assert_eq!(program("other").find(&path), None);
    }
}
