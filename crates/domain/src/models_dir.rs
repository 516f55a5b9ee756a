//! The models base directory: one value that all parts of the gateway share, and the rules for choosing it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

/// The directory that model paths are relative to and that engines see as `/models`. It is cheap to clone, and all
/// clones share one value, so that a change applies to the next start, preview and inspection at once.
#[derive(Debug, Clone)]
pub struct ModelsDir(Arc<RwLock<Arc<Path>>>);

impl ModelsDir {
    /// Makes the value from `dir`, which is absolute, with links resolved.
    pub fn new(dir: &Path) -> Self {
        Self(Arc::new(RwLock::new(dir.into())))
    }

    /// Returns the current directory. A caller with several steps must call this once and keep the result.
    pub fn get(&self) -> Arc<Path> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the directory and returns the previous one.
    pub fn set(&self, dir: &Path) -> Arc<Path> {
        std::mem::replace(&mut *self.0.write(), dir.into())
    }
}

/// Decides which directories may become the models base directory. Every engine can read everything below it, so a
/// careless choice would expose keys, other people's files, or the gateway's own secrets.
#[derive(Debug, Clone)]
pub struct ModelsDirRules {
    /// `DATA_DIR`, with links resolved.
    pub data_dir: PathBuf,
    /// The value of `MODELS_DIR`, with links resolved: the operator's own choice, which is always allowed.
    pub configured: PathBuf,
    /// The directories of `MODELS_ROOTS`, with links resolved. Empty: every directory except hidden ones and homes of
    /// other users.
    pub roots: Vec<PathBuf>,
    pub homes: Homes,
}

/// Home directories of this machine, with links resolved.
#[derive(Debug, Clone, Default)]
pub struct Homes {
    /// Home of the user that runs the gateway.
    pub own: Option<PathBuf>,
    /// Homes of other users, services included.
    pub others: Vec<PathBuf>,
}

impl Homes {
    /// Whether `dir` is another user's home, or lies in one.
    fn is_foreign(&self, dir: &Path) -> bool {
        // This also covers users that no file of this machine lists.
        let usual = [Path::new("/home"), Path::new("/root")];
        let listed = self.others.iter().any(|it| dir.starts_with(it));
        let foreign = listed || usual.iter().any(|it| dir.starts_with(it));
        foreign && !self.own.as_ref().is_some_and(|own| dir.starts_with(own))
    }
}

/// Why a directory was refused, as a sentence for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedDir {
    /// It belongs to the operating system.
    #[error("it is a directory of the operating system")]
    System,
    /// It holds more than models, such as `/` or a home folder.
    #[error("it holds more than models: choose a directory of its own below it")]
    TooWide,
    /// The data directory is in it.
    #[error("it holds the gateway's data directory")]
    HoldsData,
    /// It is in the data directory.
    #[error("it lies in the gateway's data directory")]
    InData,
    /// It is below none of `MODELS_ROOTS`.
    #[error("it is not below a directory of MODELS_ROOTS")]
    NotInRoots,
    /// A part of the path begins with a dot.
    #[error(
        "a directory whose name begins with a dot may hold keys or settings; to allow it, name it in MODELS_ROOTS or MODELS_DIR"
    )]
    Hidden,
    /// It is in the home folder of another user.
    #[error(
        "it is or lies in the home directory of another user; to allow it, name it in MODELS_ROOTS or MODELS_DIR"
    )]
    ForeignHome,
}

/// Directories that are refused with everything below them (Filesystem Hierarchy Standard 3.0, and where container
/// runtimes keep their data).
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/backups",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/log",
    "/var/mail",
    "/var/run",
    "/var/spool",
];
/// Directories that are refused themselves, but not what is below them.
const WIDE: &[&str] = &[
    "/",
    "/home",
    "/opt",
    "/root",
    "/snap",
    "/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/tmp",
    "/var/www",
];

impl ModelsDirRules {
    /// Whether `dir` may be the base directory. It must be absolute, with links resolved, because a link must not
    /// change the verdict.
    ///
    /// # Errors
    /// See [`RefusedDir`].
    pub fn check(&self, dir: &Path) -> Result<(), RefusedDir> {
        if dir == self.configured {
            return Ok(());
        }
        // A home such as `/home/ada` holds a person's keys and mail.
        let home = dir.parent() == Some(Path::new("/home")) || self.homes.own.as_deref() == Some(dir);
        if SYSTEM.iter().any(|it| dir.starts_with(it)) {
            return Err(RefusedDir::System);
        }
        if home || WIDE.iter().any(|it| dir == Path::new(it)) {
            return Err(RefusedDir::TooWide);
        }
        if self.data_dir.starts_with(dir) {
            return Err(RefusedDir::HoldsData);
        }
        // By default the models are in a folder of the data directory.
        if dir.starts_with(&self.data_dir) && !dir.starts_with(&self.configured) {
            return Err(RefusedDir::InData);
        }
        // A directory that the operator named may be anywhere. Inside it, an owner chooses, so the other rules apply
        // again.
        let named =
            std::iter::once(&self.configured).chain(&self.roots).filter_map(|it| dir.strip_prefix(it).ok());
        let is_hidden =
            |it: &Path| it.components().any(|it| it.as_os_str().as_encoded_bytes().starts_with(b"."));
        if let Some(below) = named.min_by_key(|it| it.components().count()) {
            return if is_hidden(below) { Err(RefusedDir::Hidden) } else { Ok(()) };
        }
        if !self.roots.is_empty() {
            return Err(RefusedDir::NotInRoots);
        }
        if is_hidden(dir) {
            return Err(RefusedDir::Hidden);
        }
        if self.homes.is_foreign(dir) {
            return Err(RefusedDir::ForeignHome);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_of_its_own_may_hold_the_models() {
        let mut rules = ModelsDirRules {
            data_dir: "/srv/gantry".into(),
            configured: "/srv/gantry/models".into(),
            roots: Vec::new(),
            homes: Homes {
                own: Some("/home/ada".into()),
                others: vec!["/var/lib/postgresql".into(), "/srv/ftp".into(), "/data/bob".into()],
            },
        };
        for (dir, verdict) in [
            ("/srv/models", Ok(())),
            ("/mnt", Ok(())),
            ("/home/ada/models", Ok(())),
            ("/srv/gantry/models", Ok(())),
            ("/srv/gantry/models/a", Ok(())),
            ("/srv/gantry2", Ok(())),
            ("/usrdata", Ok(())),
            ("/", Err(RefusedDir::TooWide)),
            ("/home/ada", Err(RefusedDir::TooWide)),
            ("/home/ada/.cache/huggingface", Err(RefusedDir::Hidden)),
            ("/srv/models/.ssh", Err(RefusedDir::Hidden)),
            ("/home/bob", Err(RefusedDir::TooWide)),
            ("/home/bob/models", Err(RefusedDir::ForeignHome)),
            ("/root/models", Err(RefusedDir::ForeignHome)),
            ("/root/.ssh", Err(RefusedDir::Hidden)),
            ("/var/lib/postgresql/16", Err(RefusedDir::ForeignHome)),
            ("/data/bob", Err(RefusedDir::ForeignHome)),
            ("/data/bobby", Ok(())),
            ("/opt", Err(RefusedDir::TooWide)),
            ("/opt/models", Ok(())),
            ("/srv/gantry/models/.git", Err(RefusedDir::Hidden)),
            ("/var/lib", Err(RefusedDir::TooWide)),
            ("/usr/share/models", Err(RefusedDir::System)),
            ("/proc/self/root/srv/models", Err(RefusedDir::System)),
            ("/var/lib/docker/volumes", Err(RefusedDir::System)),
            ("/srv", Err(RefusedDir::HoldsData)),
            ("/srv/gantry", Err(RefusedDir::HoldsData)),
            ("/srv/gantry/secrets", Err(RefusedDir::InData)),
        ] {
            assert_eq!(rules.check(Path::new(dir)), verdict, "{dir}");
        }
        rules.roots = vec!["/mnt/a".into(), "/mnt/b".into()];
        assert_eq!(rules.check(Path::new("/mnt/b/x")), Ok(()));
        assert_eq!(rules.check(Path::new("/mnt/bb")), Err(RefusedDir::NotInRoots));
        assert_eq!(rules.check(Path::new("/srv/gantry/models")), Ok(()));
        assert_eq!(rules.check(Path::new("/mnt/a/.x")), Err(RefusedDir::Hidden));
        // A directory that the operator names is always allowed.
        rules.roots = vec!["/home/bob/.cache".into(), "/etc".into()];
        assert_eq!(rules.check(Path::new("/home/bob/.cache/models")), Ok(()));
        assert_eq!(rules.check(Path::new("/etc/models")), Err(RefusedDir::System));
        rules.roots.clear();
        // If the gateway runs as root, root's home is its own.
        rules.homes.own = Some("/root".into());
        assert_eq!(rules.check(Path::new("/root/models")), Ok(()));
        assert_eq!(rules.check(Path::new("/root/.ssh")), Err(RefusedDir::Hidden));
        assert_eq!(rules.check(Path::new("/root")), Err(RefusedDir::TooWide));
    }
}
