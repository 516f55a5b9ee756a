//! Root's rights, and files of other accounts.
//!
//! Root runs verbs (`sudo gantry doctor`) on what belongs to the gateway's account: a database that this account may have
//! prepared, and paths that it can exchange at any moment. So there are two cases and no third one. Either root alone can
//! change everything on the way to the files; or root gives up its rights for those of their owner before it opens any of
//! them, and then a trap catches nobody but the one who set it.

use std::{
    ffi::OsString,
    fmt,
    fs::{self, DirBuilder, Metadata},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, MetadataExt, chown},
    path::{Component, Path, PathBuf},
};

use gantry_cli::doctor::user_name;
use gantry_settings::{DatabaseUrl, Settings};
use rustix::{
    process::{DumpableBehavior, Gid, Uid, geteuid, set_dumpable_behavior},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

/// The group of an account that is not in `/etc/passwd`. Its own number may be that of a group with rights.
const NO_GROUP: u32 = 65_534;
/// Most links on the way to a file, as in the kernel (`path_resolution(7)`).
const LINKS: usize = 40;
/// Files and folders in a data directory that verbs open by their names.
const OWN: [&str; 4] = ["lock", "secrets", "gateway-id", "instance"];
/// The files of a SQLite database: its own name, and these ends behind it.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-journal", ".lock"];

/// Why root does not go on.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) why: String,
    pub(crate) fix: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why, self.fix)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    fn unseen(path: &Path, error: &io::Error) -> Self {
        Self {
            why: format!("can't look at {}: {error}", path.display()),
            fix: "run this as the user of the gateway".to_owned(),
        }
    }

    fn foreign(path: &Path, uid: u32) -> Self {
        let (path, user) = (path.display(), user_name(uid));
        Self {
            why: format!("{path} belongs to the user {user}, who could exchange what root opens"),
            fix: format!(
                "give the data directory and the database to one user (chown), or run this as the user of the gateway: \
                 sudo -u {user} gantry …"
            ),
        }
    }

    fn open_to_others(path: &Path) -> Self {
        let path = path.display();
        Self {
            why: format!("other users may write to {path}, and could exchange what root opens"),
            fix: format!("chmod go-w {path}, or use another folder"),
        }
    }
}

/// An account whose rights are enough for the files of a gateway.
#[derive(Debug)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Account {
    /// The account with this number, with its groups in `/etc/group`.
    pub(crate) fn of(uid: u32) -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let Some((name, gid)) = text("/etc/passwd").lines().find_map(|it| entry(it, uid)) else {
            return Self { uid, gid: NO_GROUP, groups: Vec::new() };
        };
        let groups = text("/etc/group").lines().filter_map(|it| group(it, &name)).collect();
        Self { uid, gid, groups }
    }

    /// The name, in the form that `sudo -u` takes.
    pub(crate) fn name(&self) -> String {
        user_name(self.uid)
    }

    /// Gives up root's rights for those of this account, for good.
    ///
    /// # Errors
    /// The process has other threads: on Linux each has rights of its own, and only later ones inherit these. Or this root may
    /// not change its user.
    pub(crate) fn enter(&self) -> Result<(), Refused> {
        let refused = |why: String| Refused {
            why: format!("root can't work with the rights of the user {}: {why}", self.name()),
            fix: format!("sudo -u {} gantry …", self.name()),
        };
        let tasks = Path::new("/proc/self/task");
        let n = fs::read_dir(tasks).map_err(|it| Refused::unseen(tasks, &it))?.count();
        if n != 1 {
            return Err(refused(format!("the program has {n} threads")));
        }
        let groups: Vec<Gid> = self.groups.iter().map(|it| Gid::from_raw(*it)).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&groups)
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid))
            // The account could trace this process otherwise, and read root's environment in it.
            .and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
            .map_err(|it| refused(it.to_string()))
    }

    /// Makes a folder of mode 0700 for this account where root alone may make one, and root's folders above it. A folder that
    /// is there stays as it is, and elsewhere the account has to make it itself.
    pub(crate) fn make_folder(&self, dir: &Path) -> io::Result<()> {
        let dir = std::path::absolute(dir)?;
        // Elsewhere somebody could put another folder in its place before it is given away.
        let Some(above) = dir.parent().filter(|it| only_root_changes(it).is_ok()) else { return Ok(()) };
        fs::create_dir_all(above)?;
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => chown(&dir, Some(self.uid), Some(self.gid)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Name and group of the account `uid`, from its line of `passwd(5)`.
fn entry(line: &str, uid: u32) -> Option<(String, u32)> {
    let mut parts = line.split(':');
    let (name, _, number, group) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_it = number.parse::<u32>().is_ok_and(|it| it == uid);
    if is_it { Some((name.to_owned(), group.parse().ok()?)) } else { None }
}

/// The number of the group in a line of `group(5)`, if `name` is a member.
fn group(line: &str, name: &str) -> Option<u32> {
    let mut parts = line.split(':');
    let (_, _, number, members) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if members.split(',').any(|it| it == name) { number.parse().ok() } else { None }
}

/// Gives up root's rights for those of the owner of the files that these settings name, and says so. Does nothing if this
/// is not root, or if root alone can change them. Call it before anything in the data directory or the database is opened.
///
/// # Errors
/// The files belong to several accounts, or everybody may write there.
pub(crate) fn enter(settings: &Settings) -> Result<(), Refused> {
    enter_of(of(settings)?)
}

/// [`enter`] for a verb that opens another database, too.
pub(crate) fn enter_with(settings: &Settings, other: &DatabaseUrl) -> Result<(), Refused> {
    enter_of(owner(settings, &[&settings.database(), other])?)
}

fn enter_of(account: Option<Account>) -> Result<(), Refused> {
    let Some(account) = account else { return Ok(()) };
    account.enter()?;
    gantry_cli::tell(&format!(
        "gantry: root works with the rights of the user {} here, to whom the data directory belongs\n",
        account.name()
    ));
    Ok(())
}

/// Returns the account that root has to become before it opens the files that these settings name; `None` if this is not
/// root, or if root alone can change them.
///
/// # Errors
/// The files belong to several accounts, or everybody may write there.
pub(crate) fn of(settings: &Settings) -> Result<Option<Account>, Refused> {
    owner(settings, &[&settings.database()])
}

/// Refuses to serve as root what is another account's. A gateway keeps its rights while it runs, so it does not change them.
///
/// # Errors
/// Another account can change what is in the data directory or in the database.
pub(crate) fn stays_root(settings: &Settings) -> Result<(), Refused> {
    let Some(account) = of(settings)? else { return Ok(()) };
    let (dir, user) = (settings.data.data_dir.display(), account.name());
    Err(Refused {
        why: format!(
            "DATA_DIR ({dir}) is in the hands of the user {user}, who could exchange what root opens"
        ),
        fix: format!(
            "run it as that user (sudo -u {user} gantry serve), or give it to root: chown -R root: {dir}"
        ),
    })
}

/// Checks a data directory that was just made, or was there: somebody else may have made it first.
///
/// # Errors
/// This is root, and not only root can change what is in it.
pub(crate) fn check_made(dir: &Path) -> Result<(), Refused> {
    if geteuid().is_root() { only_root_changes(dir) } else { Ok(()) }
}

fn owner(settings: &Settings, databases: &[&DatabaseUrl]) -> Result<Option<Account>, Refused> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let data = absolute(&settings.data.data_dir)?;
    let mut files: Vec<PathBuf> = Vec::new();
    for database in databases {
        let file = database.expose().strip_prefix("sqlite://").filter(|it| !it.is_empty());
        files.extend(file.map(|it| absolute(Path::new(it))).transpose()?);
    }
    // The data directory says whose the gateway is. Without one, the database does.
    let decide: Vec<&Path> = match files.first() {
        Some(file) if !data.exists() => file.parent().into_iter().chain([file.as_path()]).collect(),
        _ => vec![data.as_path()],
    };
    for path in decide {
        let uid = nearest_owner(path)?;
        if uid != 0 {
            return Ok(Some(Account::of(uid)));
        }
    }
    let own = OWN.iter().map(|it| data.join(it));
    let beside = files.iter().flat_map(|file| {
        let named = BESIDE.map(|end| {
            let mut name = file.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        });
        file.parent().map(Path::to_owned).into_iter().chain(named)
    });
    for path in std::iter::once(data.clone()).chain(own).chain(beside) {
        only_root_changes(&path)?;
    }
    Ok(None)
}

fn absolute(path: &Path) -> Result<PathBuf, Refused> {
    std::path::absolute(path).map_err(|it| Refused::unseen(path, &it))
}

/// Returns the owner of what is at an absolute path, or else of the nearest folder above it.
fn nearest_owner(path: &Path) -> Result<u32, Refused> {
    for it in path.ancestors() {
        match fs::metadata(it) {
            Ok(meta) => return Ok(meta.uid()),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Refused::unseen(it, &error)),
        }
    }
    Ok(0)
}

/// Checks that nobody but root can change what is at an absolute path, nor what the path leads to. It follows the path as
/// the kernel does, through links too. Each part must be root's, and only root may write to the folders; on the way, others
/// may write to a folder in which they can't rename what is root's (`/tmp`). Something that is not there passes.
fn only_root_changes(path: &Path) -> Result<(), Refused> {
    let mut at = PathBuf::from("/");
    let mut here = look(&at)?;
    let (mut rest, mut links) = (parts(path), 0);
    while let Some(part) = rest.pop() {
        if here.uid() != 0 {
            return Err(Refused::foreign(&at, here.uid()));
        }
        // Sticky: an entry can be renamed by its owner and root alone.
        if is_open(&here) && here.mode() & 0o1000 == 0 {
            return Err(Refused::open_to_others(&at));
        }
        let next = if part == ".." { at.parent().unwrap_or(&at).to_owned() } else { at.join(part) };
        let meta = match fs::symlink_metadata(&next) {
            Ok(meta) => meta,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(Refused::unseen(&next, &error)),
        };
        if !meta.is_symlink() {
            (at, here) = (next, meta);
            continue;
        }
        links += 1;
        if meta.uid() != 0 || links > LINKS {
            return Err(Refused::foreign(&next, meta.uid()));
        }
        let target = fs::read_link(&next).map_err(|it| Refused::unseen(&next, &it))?;
        if target.is_absolute() {
            at = PathBuf::from("/");
            here = look(&at)?;
        }
        rest.extend(parts(&target));
    }
    match here.uid() {
        0 if is_open(&here) => Err(Refused::open_to_others(&at)),
        0 => Ok(()),
        uid => Err(Refused::foreign(&at, uid)),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn look(path: &Path) -> Result<Metadata, Refused> {
    fs::symlink_metadata(path).map_err(|it| Refused::unseen(path, &it))
}

/// Returns the names in a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|it| match it {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// Whether others than root may write to it. Root's own group counts as root.
fn is_open(meta: &Metadata) -> bool {
    meta.mode() & 0o002 != 0 || (meta.mode() & 0o020 != 0 && meta.gid() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_the_groups_of_its_lines() {
        let line = "gantry:x:998:997:,,,:/var/lib/gantry:/usr/sbin/nologin";
        assert_eq!(entry(line, 998), Some(("gantry".to_owned(), 997)));
        assert_eq!(entry(line, 99), None);
        assert_eq!(group("docker:x:120:ada,gantry", "gantry"), Some(120));
        for other in ["docker:x:120:", "docker:x:120:gantry2", "docker:x", ""] {
            assert_eq!(group(other, "gantry"), None, "{other}");
        }
    }

    #[test]
    fn the_names_of_a_path_come_from_its_end() {
        assert_eq!(parts(Path::new("/a/./b/../c")), ["c", "..", "b", "a"]);
        assert!(parts(Path::new("/")).is_empty());
    }
}
