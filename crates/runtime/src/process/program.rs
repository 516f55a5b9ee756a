//! Handles programs in place of images: which there are, where they are and what version they have.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
};

use gantry_domain::{
    Timestamp,
    hex::hex,
    image,
    model::{EngineKind, PerEngine},
};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use crate::{ImageInfo, ImageProbe};

/// Most bytes that are kept of what a program prints on each of its outputs; the options of vLLM are some 100 KiB.
const MAX_ANSWER: u64 = 4 << 20;

/// A program that starts an engine. The operator of the machine names it, never a model's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Used where containers have the name of their image.
    pub reference: String,
    /// The program (a path, or a name that is looked up in `PATH`) and its first arguments; not empty.
    pub words: Vec<String>,
    pub engine: EngineKind,
    /// Gantry's engine simulator, not a real engine.
    pub simulator: bool,
    /// Its version, if that is known without running it.
    pub version: Option<String>,
}

/// The programs of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// For models that don't ask for a simulator.
    pub engines: PerEngine<Program>,
    /// For models whose `engine_image` is a simulator's.
    pub simulators: PerEngine<Program>,
}

impl Programs {
    /// Returns the program for a model of `engine` whose `engine_image` is `wished`. Images mean nothing here except
    /// those of the simulator, in whatever version: a model that is meant to be simulated must not get a real engine.
    pub fn of(&self, engine: EngineKind, wished: Option<&str>) -> &Program {
        let simulated = wished.is_some_and(image::is_simulator);
        if simulated { &self.simulators[engine] } else { &self.engines[engine] }
    }

    pub(super) fn named(&self, reference: &str) -> Option<&Program> {
        self.engines.values().chain(self.simulators.values()).find(|it| it.reference == reference)
    }
}

impl Program {
    /// Returns the file that would be run; `None` if no such file can be run. `path` is a `PATH`.
    pub fn find(&self, path: &str) -> Option<PathBuf> {
        let name = self.words.first()?;
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|it| is_program(it));
        }
        // An empty or relative entry would be looked up in the current directory, which was not chosen for this.
        let dirs = path.split(':').filter(|it| it.starts_with('/'));
        dirs.map(|dir| Path::new(dir).join(name)).find(|it| is_program(it))
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Returns what is known of the program at `file` without running it; `None` if it is gone. Blocking.
pub(super) fn describe(program: &Program, file: &Path) -> Option<ImageInfo> {
    let seen = fs::metadata(file).ok()?;
    let beside = || (program.engine == EngineKind::Vllm).then(|| installed_beside(file)).flatten();
    Some(ImageInfo {
        id: identity(program, file, &seen),
        config: None,
        layers: Vec::new(),
        architecture: crate::runtime::ARCHITECTURE.to_owned(),
        size_bytes: i64::try_from(seen.len()).unwrap_or(i64::MAX),
        created: Some(Timestamp(seen.mtime().saturating_mul(1000)).rfc3339()),
        version_label: program.version.clone().or_else(beside),
        simulator: program.simulator,
    })
}

/// Returns an id that changes when another program takes the place: SHA-256 over command, size and time of change.
fn identity(program: &Program, file: &Path, seen: &fs::Metadata) -> String {
    let mut hash = Sha256::new();
    for part in program.words.iter().map(String::as_bytes).chain([file.as_os_str().as_encoded_bytes()]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    for number in [seen.size() as i64, seen.mtime(), seen.mtime_nsec()] {
        hash.update(number.to_le_bytes());
    }
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Returns what the program prints, first on stdout and then on stderr. All its processes end with the answer, or when
/// the future is dropped.
pub(super) async fn ask(
    program: &Program,
    file: &Path,
    probe: &ImageProbe<'_>,
    environment: &[(String, String)],
) -> io::Result<String> {
    let mut command = Command::new(file);
    command.args(words(program, probe.entrypoint)).args(probe.args);
    command.env_clear().envs(environment.iter().cloned()).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let group = Group(child.id().and_then(|it| Pid::from_raw(it.cast_signed())));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let ended = child.wait().await;
        // A script may have left something running that holds the pipes.
        drop(group);
        ended
    };
    let (out, err, ended) = tokio::join!(read(out), read(err), ended);
    ended?;
    Ok(out? + &err?)
}

/// Returns the words between the program and a probe's arguments. A probe that brings an entry point of its own asks
/// the program itself, not the subcommand that serves: `vllm --version`, where a model gets `vllm serve …`.
fn words<'a>(program: &'a Program, entrypoint: Option<&'a [&'a str]>) -> Vec<&'a str> {
    let own = program.words.iter().skip(1).map(String::as_str);
    match entrypoint {
        None => own.collect(),
        Some(words) => own.take_while(|it| *it != "serve").chain(words.iter().skip(1).copied()).collect(),
    }
}

/// Reads all of the output, so that the program does not wait for a reader, but keeps only a part.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut pipe) = pipe else { return Ok(String::new()) };
    let mut kept = Vec::new();
    (&mut pipe).take(MAX_ANSWER).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

/// A process group. All its processes are killed when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Returns the version of the vLLM in the environment that `file` belongs to, from the name of the package's folder:
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_goes_to_the_program_and_not_to_what_serves() {
        let program = |words: &[&str]| Program {
            reference: String::new(),
            words: words.iter().map(|it| (*it).to_owned()).collect(),
            engine: EngineKind::Vllm,
            simulator: false,
            version: None,
        };
        let module = program(&["python3", "-m", "vllm", "serve", "--seed", "1"]);
        assert_eq!(words(&module, Some(&["vllm"])), ["-m", "vllm"]);
        assert_eq!(words(&program(&["llama-server", "-v"]), None), ["-v"]);
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
            version: None,
        };
        let path = format!(".::{}:{}", plain.display(), good.display());
        assert_eq!(program("llama-server").find(&path), Some(good.join("llama-server")));
        assert_eq!(program(plain.join("llama-server").to_str().unwrap()).find(&path), None);
        assert_eq!(program("other").find(&path), None);
    }
}
