//! Reads CPU time and resident memory of a process tree, and facts about this machine, from `/proc` (Linux only).

use std::{fs, time::Duration};

use anyhow::{Context, Result};

/// Ticks per second in `/proc/<pid>/stat` and `/proc/stat`: `USER_HZ`, 100 on every Linux this runs on.
pub(crate) const TICKS_PER_S: u64 = 100;

/// The values of `/proc/<pid>/stat` for one process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// User + system ticks of all threads, ended ones too.
    own_ticks: u64,
    /// User + system ticks of the children already waited for.
    child_ticks: u64,
}

/// User + system CPU time used so far by `pid` and all its descendants.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    Ok(tree(pid)?.iter().map(|(pid, stat)| own_cpu(*pid, stat) + ticks(stat.child_ticks)).sum())
}

/// Returns the CPU time of a process: the scheduler's nanoseconds of the living threads, unless the ticks, which are
/// rounded down, are more.
///
/// Both come from the same clock. Ticks are too coarse for a load that leaves the core idle most of the time;
/// nanoseconds are lost with the thread that spent them, and some kernels do not report them.
fn own_cpu(pid: u32, stat: &Stat) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let schedstats = threads.filter_map(|it| fs::read_to_string(it.ok()?.path().join("schedstat")).ok());
    let nanos = schedstats.filter_map(|it| it.split_whitespace().next()?.parse::<u64>().ok()).sum();
    ticks(stat.own_ticks).max(Duration::from_nanos(nanos))
}

fn ticks(n: u64) -> Duration {
    Duration::from_millis(n * 1000 / TICKS_PER_S)
}

/// Resident memory of `pid` and all its descendants, in KiB; pages shared between them count once each.
pub(crate) fn rss_kib(pid: u32) -> Result<u64> {
    let status = |pid: u32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    Ok(tree(pid)?.iter().filter_map(|(pid, _)| status_number(&status(*pid), "VmRSS:")).sum())
}

/// Largest resident memory of `pid` since its start, or since [`forget_peak`], in KiB.
pub(crate) fn rss_peak_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    status_number(&status, "VmHWM:").context("the kernel does not say the largest memory")
}

/// Lets [`rss_peak_kib`] begin anew.
pub(crate) fn forget_peak(pid: u32) -> Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Bytes that `pid` has read and written by system calls on files, from the page cache or the disk.
pub(crate) fn file_bytes(pid: u32) -> Result<[u64; 2]> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let number = |field| status_number(&io, field).context("the kernel counts no bytes");
    Ok([number("rchar:")?, number("wchar:")?])
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|it| status_number(&it, "Uid:") == Some(0))
}

/// The soft limit of open files of this process; `None` when unlimited or unreadable.
pub(crate) fn open_file_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok())
}

/// The kernel's release, for example `6.1.0-18-amd64`.
pub(crate) fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// The first CPU's model name.
pub(crate) fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|it| it.starts_with("model name"));
    line.and_then(|it| it.split_once(':')).map_or_else(|| "unknown".to_owned(), |(_, v)| v.trim().to_owned())
}

/// Returns `root` and its descendants. Leaves out a process that ends between listing and reading.
fn tree(root: u32) -> Result<Vec<(u32, Stat)>> {
    let read = |pid: u32| parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let mut members = vec![(root, read(root).with_context(|| format!("process {root} is gone"))?)];
    let entries = fs::read_dir("/proc").context("cannot list `/proc`")?;
    let mut others: Vec<(u32, Stat)> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, read(pid)?)))
        .collect();
    let mut at = 0;
    while let Some(parent) = members.get(at).map(|it| it.0) {
        members.extend(others.extract_if(.., |(pid, stat)| stat.parent == parent && *pid != root));
        at += 1;
    }
    Ok(members)
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The command name may hold spaces and parentheses; the last `)` ends it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // proc(5) counts from 1 and from the pid: state is 3, ppid 4, utime…cstime 14–17.
    Some(Stat {
        parent: number(1)?.try_into().ok()?,
        own_ticks: number(11)? + number(12)?,
        child_ticks: number(13)? + number(14)?,
    })
}

fn status_number(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|it| it.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "42 (a (strange) name) S 7 42 42 0 -1 4194560 1000 0 0 0 150 50 3 2 20 0 4 0 100 200 300";

    #[test]
    fn stat_is_read_after_the_last_parenthesis() {
        assert_eq!(parse_stat(STAT), Some(Stat { parent: 7, own_ticks: 200, child_ticks: 5 }));
        assert_eq!(parse_stat("42 (cut) S 7 42"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn status_fields_are_numbers_after_their_name() {
        let status = "Name:\tx\nVmRSS:\t   14520 kB\nUid:\t0\t0\t0\t0\n";
        assert_eq!(status_number(status, "VmRSS:"), Some(14520));
        assert_eq!(status_number(status, "Uid:"), Some(0));
        assert_eq!(status_number(status, "VmSwap:"), None);
    }

    #[test]
    fn own_tree_has_memory_and_cpu_grows() {
        let pid = std::process::id();
        assert!(rss_kib(pid).unwrap() > 100);
        let before = cpu(pid).unwrap();
        let mut x = 0_u64;
        for i in 0..200_000_000_u64 {
            x = std::hint::black_box(x ^ i);
            if i % 1_000_000 == 0 && cpu(pid).unwrap() > before {
                return;
            }
        }
        panic!("no tick in {x} rounds");
    }

    #[test]
    fn the_tree_includes_children() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let members = tree(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(members.iter().any(|(pid, _)| *pid == child.id()));
    }
}
