//! Checks of the folders: whether this user may use them, who owns them, how much space is free, and which gateway
//! uses them.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use gantry_settings::Settings;
use rustix::{
    fs::{Access, access, statvfs},
    process::getuid,
};

use super::Check;

/// Warn below this free space, in bytes: a database and a usage spool fill it within days.
const LEAST_SPACE: u64 = 2 << 30;
/// Fail below this free space, in bytes: it is full within minutes, because a usage segment, a write-ahead log and a
/// sort of the database need about as much.
const NO_SPACE: u64 = 64 << 20;
/// Files and folders of a data directory that the gateway itself writes, besides a database.
const OWN: [&str; 6] = ["lock", "gateway-id", "instance", "container-runtime", "secrets", "spool"];

/// Runs every check of the folders of a gateway with these settings.
pub fn folders(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![data_dir(&settings.data.data_dir)];
    checks.extend(data_files(&settings.data.data_dir));
    checks.push(models_dir(settings));
    checks
}

fn data_dir(dir: &Path) -> Check {
    const NAME: &str = "data_dir";
    const MEANS: &str = "The database, secrets and usage are kept there: the gateway does not start.";
    let shown = dir.display();
    let there = nearest(dir);
    let is_there = there == absolute(dir);
    if !there.is_dir() {
        let found = format!("{shown}: {} is not a folder", there.display());
        return Check::fail(NAME, found, MEANS, "set DATA_DIR to another folder");
    }
    if access(&there, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let found = format!("{shown}: this user can't write to {}", there.display());
        let hidden = fs::symlink_metadata(dir).is_err_and(|it| it.kind() == io::ErrorKind::PermissionDenied);
        let fix = match other_owner(dir) {
            // The folder already belongs to another user, most likely to that user's gateway, and must keep its owner.
            Some(owner) if is_there || hidden => as_owner(&owner, dir),
            None if is_there || hidden => format!("chmod u+rwx {}, or set DATA_DIR", there.display()),
            _ => format!(
                "sudo install -d -m 700 -o \"$(id -un)\" {shown}, if the gateway is to run as this user; or set DATA_DIR"
            ),
        };
        return Check::fail(NAME, found, MEANS, &fix);
    }
    let free = free(&there);
    if free < LEAST_SPACE {
        let found = format!("{shown} has {} free", size(free));
        let fix = "make room, or set DATA_DIR to another disk; USAGE_RETENTION_DAYS keeps less";
        return if free < NO_SPACE {
            let means = "The gateway can't record usage, and therefore refuses inference.";
            Check::fail(NAME, found, means, fix)
        } else {
            Check::warn(NAME, found, "A full disk stops metering, and with it inference.", fix)
        };
    }
    let state = if is_there { "is writable" } else { "will be made" };
    Check::ok(NAME, format!("{shown} {state}, {} free", size(free)))
}

/// Checks files that are already in the data directory. Another user may have left them there, for example by running
/// `sudo gantry serve` once.
fn data_files(dir: &Path) -> Option<Check> {
    // If this user may not use the folder at all, another check has reported that already.
    access(dir, Access::WRITE_OK | Access::EXEC_OK).ok()?;
    let mut files: Vec<PathBuf> = OWN.iter().map(|it| dir.join(it)).collect();
    for name in ["secrets", "spool"] {
        files.extend(fs::read_dir(dir.join(name)).into_iter().flatten().flatten().map(|it| it.path()));
    }
    writable("data_files", dir, files)
}

/// Checks whether this user may read and write each of the `files` in `dir` that exist; `None` if none exists.
pub fn writable(name: &'static str, dir: &Path, mut files: Vec<PathBuf>) -> Option<Check> {
    files.retain(|it| fs::symlink_metadata(it).is_ok());
    let n_all = files.len();
    let may = |it: &PathBuf| {
        let also = if it.is_dir() { Access::EXEC_OK } else { Access::empty() };
        access(it, Access::READ_OK | Access::WRITE_OK | also).is_ok()
    };
    files.retain(|it| !may(it));
    let Some(first) = files.first() else {
        return (n_all > 0).then(|| {
            Check::ok(
                name,
                format!("{n_all} {} writable", if n_all == 1 { "is" } else { "files and folders are" }),
            )
        });
    };
    let more = if files.len() > 1 { format!(", and {} more", files.len() - 1) } else { String::new() };
    let fix = match other_owner(dir) {
        Some(owner) => as_owner(&owner, dir),
        None if other_owner(first).is_some() => {
            // The files should belong to the owner of the folder, which is this user.
            let dir = dir.display();
            format!("sudo chown --no-dereference --reference={dir} {}{more}", first.display())
        }
        None => format!("chmod u+rwX {}{more}", first.display()),
    };
    Some(Check::fail(
        name,
        format!("this user can't read and write {}{more}", first.display()),
        "A gateway of this user does not start, or can't record usage.",
        &fix,
    ))
}

/// Checks whether the gateway that runs on this machine uses this data directory; `None` if it does, or if that can't
/// be found out.
///
/// The check looks for the lock that each gateway holds on a file in its data directory, in the kernel's list of locks
/// (`proc_locks(5)`).
///
/// `fix` is what to do about it.
pub fn in_use(dir: &Path, fix: &str) -> Option<Check> {
    let locks = fs::read_to_string("/proc/locks").ok().filter(|it| it.contains("FLOCK"))?;
    let inode = match fs::metadata(dir.join("lock")) {
        Ok(it) => Some(it.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    if inode.is_some_and(|it| holds(&locks, it)) {
        return None;
    }
    Some(not_in_use(dir, fix))
}

/// Makes the check for a running gateway that has another data directory. `fix` is what to do about it.
pub fn not_in_use(dir: &Path, fix: &str) -> Check {
    Check::warn(
        "same_gateway",
        format!("the running gateway does not use DATA_DIR {}", dir.display()),
        "It has other settings: the checks of folders and of a SQLite database are not about it.",
        fix,
    )
}

/// Returns whether the kernel's list has a lock (`flock(2)`) on this file. The device is not compared, because stacked
/// file systems have several.
fn holds(locks: &str, inode: u64) -> bool {
    locks.lines().filter(|it| it.contains(" FLOCK ")).any(|line| {
        let place = line.split_ascii_whitespace().find(|it| it.matches(':').count() == 2);
        place.and_then(|it| it.rsplit(':').next()?.parse().ok()) == Some(inode)
    })
}

fn models_dir(settings: &Settings) -> Check {
    const NAME: &str = "models_dir";
    let dir = settings.models_dir();
    let shown = dir.display();
    match fs::read_dir(&dir) {
        Ok(entries) => {
            let n = entries.count();
            let entries = if n == 1 { "entry" } else { "entries" };
            Check::ok(NAME, format!("{shown} has {n} {entries}, {} free", size(free(&dir))))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Check::warn(
            NAME,
            format!("{shown} does not exist yet"),
            "The gateway creates it, empty: there are no models in it.",
            &format!("mkdir -p {shown}, and put models there; or set MODELS_DIR"),
        ),
        Err(error) => {
            let fix = match other_owner(&dir) {
                // Below the data directory, only the gateway's user decides who may read the models.
                Some(owner) if dir.starts_with(&settings.data.data_dir) => {
                    as_owner(&owner, &settings.data.data_dir)
                }
                _ => format!("sudo chmod a+rX {shown}, or set MODELS_DIR"),
            };
            Check::fail(
                NAME,
                format!("{shown}: {error}"),
                "Engines read their models from it: none would start.",
                &fix,
            )
        }
    }
}

fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

/// Returns the path, or its nearest parent that this user can see.
fn nearest(path: &Path) -> PathBuf {
    let path = absolute(path);
    path.ancestors().find(|it| fs::metadata(it).is_ok()).unwrap_or(Path::new("/")).to_owned()
}

/// Returns the owner of the path (or of its nearest visible parent), if that is another user.
pub fn other_owner(path: &Path) -> Option<String> {
    let uid = fs::metadata(nearest(path)).ok()?.uid();
    (uid != getuid().as_raw()).then(|| user_name(uid))
}

/// Returns the name of a user, in the form that `sudo -u` takes. Accounts of a directory service are not in
/// `/etc/passwd`, and stay numbers.
pub fn user_name(uid: u32) -> String {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = uid.to_string();
    let of = |line: &str| {
        let mut parts = line.split(':');
        let name = parts.next()?.to_owned();
        (parts.nth(1)? == number).then_some(name)
    };
    text.lines().find_map(of).unwrap_or_else(|| format!("'#{uid}'"))
}

/// Returns the advice for a folder of another user. It never suggests to change the owner, because a gateway of that
/// user runs on it.
pub fn as_owner(owner: &str, data_dir: &Path) -> String {
    let dir = data_dir.display();
    format!("run it as that user, with its settings: sudo -u {owner} env DATA_DIR={dir} gantry doctor")
}

fn free(dir: &Path) -> u64 {
    statvfs(dir).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize))
}

pub(super) fn size(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
