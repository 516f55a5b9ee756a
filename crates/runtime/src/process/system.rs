//! Finds the machine's processes that carry the mark of an engine, and sends signals to them.
//!
//! Every process of an engine inherits the variable [`MARK`]. So a process is found even if its supervisor is gone, or
//! if its start was never noted down. It is found in `/proc/*/environ`, which only root can read for other users'
//! processes. A process that cleared its environment is found by the session that its supervisor made.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// Variable whose value is `owner/id`.
pub(super) const MARK: &str = "GANTRY_ENGINE_INSTANCE";

/// Returns the value of [`MARK`].
pub(super) fn mark(owner: &str, id: &str) -> String {
    format!("{owner}/{id}")
}

/// A process with the mark of one of `owner`'s engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) pid: i32,
    /// Id of the engine's start.
    pub(super) id: String,
}

/// Returns every process that carries the mark of `owner`, except this one.
pub(super) fn marked(owner: &str) -> Vec<Marked> {
    let own = rustix::process::getpid().as_raw_pid();
    let pids = processes().filter(|pid| *pid != own);
    pids.filter_map(|pid| Some(Marked { pid, id: id_in_environment(pid, owner)? })).collect()
}

/// Returns the instance that a process belongs to, whatever its owner. An engine may overwrite its environment with a
/// title of its own, as vLLM does; its supervisor does not.
pub fn engine_of(pid: u32) -> Option<String> {
    // Most ancestors that are looked at: more than engines have.
    const GENERATIONS: usize = 16;
    let line = std::iter::successors(i32::try_from(pid).ok(), |pid| parent(*pid).filter(|it| *it > 1));
    line.take(GENERATIONS).find_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let prefix = format!("{MARK}=");
        let value = environment.split(|it| *it == 0).find_map(|it| it.strip_prefix(prefix.as_bytes()))?;
        Some(str::from_utf8(value).ok()?.rsplit_once('/')?.1.to_owned())
    })
}

fn id_in_environment(pid: i32, owner: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{MARK}={owner}/");
    let value = environment.split(|it| *it == 0).find_map(|it| it.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(value.to_vec()).ok()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok())
}

/// Returns the processes whose parent is this one.
pub(super) fn children() -> Vec<i32> {
    let own = rustix::process::getpid().as_raw_pid();
    processes().filter(|pid| parent(*pid) == Some(own)).collect()
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid, 4)
}

/// Returns a number of `/proc/<pid>/stat`. Fields are counted from 1 as in `proc(5)`. Only fields after the second can
/// be read: that one is a name in brackets that may contain anything.
fn stat(pid: i32, field: usize) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
}

/// Whether a process has ended. It may not have been collected yet: then it has no environment any more, but still a
/// session.
fn is_over(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|it| it.1.trim_start().chars().next());
    state.is_none_or(|it| matches!(it, 'Z' | 'X'))
}

/// Returns the id of the machine's current boot (`proc(5)`, `random/boot_id`); empty if that can't be read.
pub fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|it| it.trim().to_owned()).unwrap_or_default()
}

/// Whether a process is in the session that the supervisor of the engine `id` led. While a session has members, the
/// kernel gives its number to no other process; after that it may. So processes are left out if another process leads
/// their session, if they have a terminal, or if they are another user's.
fn is_in_session(pid: i32, leader: i32, owner: &str, id: &str) -> bool {
    let user = |pid: i32| fs::metadata(format!("/proc/{pid}")).map(|it| it.uid()).ok();
    stat(pid, 6) == Some(leader)
        && stat(pid, 7) == Some(0)
        && user(pid) == Some(rustix::process::geteuid().as_raw())
        && (is_over(leader) || id_in_environment(leader, owner).as_deref() == Some(id))
}

/// Kills every process of the engine, and those that they start meanwhile. Finds them by their mark, and by the session
/// that the supervisor led. Returns `false` if some are left after `limit`.
pub(super) fn sweep(owner: &str, id: &str, session: Option<i32>, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let own = rustix::process::getpid().as_raw_pid();
    let is_its = |pid: i32| {
        id_in_environment(pid, owner).as_deref() == Some(id)
            || session.is_some_and(|leader| is_in_session(pid, leader, owner, id))
    };
    loop {
        let left: Vec<i32> = processes().filter(|it| *it != own && !is_over(*it) && is_its(*it)).collect();
        if left.is_empty() {
            return true;
        }
        for pid in left {
            tracing::warn!(pid, "ending a process that an engine left behind");
            send(pid, Signal::KILL, || is_its(pid));
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process if it is still the expected one. Returns whether it was sent.
pub(super) fn send(pid: i32, signal: Signal, is_it: impl FnOnce() -> bool) -> bool {
    // Checked after the handle was made: the process id may come to mean another process, the handle can't.
    let handle = open(pid);
    is_it()
        && match (handle, Pid::from_raw(pid)) {
            (Some(handle), _) => pidfd_send_signal(&handle, signal).is_ok(),
            // Before Linux 5.3, or in a sandbox.
            (None, Some(pid)) => kill_process(pid, signal).is_ok(),
            (None, None) => false,
        }
}

/// Returns a handle that always means this process.
pub(super) fn open(pid: i32) -> Option<std::os::fd::OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()
}

/// Returns how often the kernel ended a process of this control group for lack of memory; 0 if that can't be read. The
/// count of the whole machine says nothing of an engine: other programs run out of memory, too.
pub(super) fn out_of_memory_kills() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = counters(&groups);
    files.iter().find_map(|it| number_after("oom_kill", &fs::read_to_string(it).ok()?)).unwrap_or(0)
}

/// Returns the files that may have the count of a process with these control groups (`/proc/<pid>/cgroup`): that of its
/// group, or in a container that of the root that it sees.
fn counters(groups: &str) -> Vec<PathBuf> {
    let lines = groups.lines().filter_map(|it| it.split_once(':')?.1.split_once(':'));
    // Where version 1 has the controller of memory, version 2 does not count.
    let (root, path, file) = match lines.clone().find(|it| it.0.split(',').any(|it| it == "memory")) {
        Some((_, path)) => ("/sys/fs/cgroup/memory", path, "memory.oom_control"),
        None => match lines.clone().find(|it| it.0.is_empty()) {
            Some((_, path)) => ("/sys/fs/cgroup", path, "memory.events"),
            None => return Vec::new(),
        },
    };
    let root = Path::new(root);
    vec![root.join(path.trim_start_matches('/')).join(file), root.join(file)]
}

fn number_after(name: &str, text: &str) -> Option<u64> {
    text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_whole_name() {
        assert_eq!(number_after("oom_kill", "oom 3\noom_kill_disable 1\noom_kill 7\n"), Some(7));
        assert_eq!(number_after("oom_kill", "oom 3\n"), None);
    }

    #[test]
    fn kills_are_counted_in_the_group_of_the_process_in_both_versions() {
        let first = |groups: &str| counters(groups).first().map(|it| it.display().to_string());
        let second = "0::/system.slice/gantry.service\n";
        assert_eq!(
            first(second).as_deref(),
            Some("/sys/fs/cgroup/system.slice/gantry.service/memory.events")
        );
        let own = "12:cpu,cpuacct:/a\n9:memory:/system.slice/gantry.service\n1:name=systemd:/b\n0::/b\n";
        assert_eq!(
            first(own).as_deref(),
            Some("/sys/fs/cgroup/memory/system.slice/gantry.service/memory.oom_control")
        );
        // A path may have colons.
        assert_eq!(first("0::/a:b").as_deref(), Some("/sys/fs/cgroup/a:b/memory.events"));
        assert_eq!(counters("1:name=systemd:/b\n"), Vec::<PathBuf>::new());
        assert_eq!(number_after("oom_kill", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), Some(2));
    }

    #[test]
    fn a_process_knows_its_parent() {
        let own = rustix::process::getpid().as_raw_pid();
        assert_eq!(parent(own), rustix::process::getppid().map(Pid::as_raw_pid));
    }
}
