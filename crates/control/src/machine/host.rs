//! Reads the machine's state from Linux' `/proc`: processors, memory, network, file systems. All calls block, for less
//! than a millisecond unless a file system hangs. On another system everything is unknown.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use gantry_domain::host::{Disk, ProcessNow};

const MIB: u64 = 1 << 20;

/// Counters of which only the difference between two readings means something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    at: Instant,
    /// Busy time and total time, in the kernel's ticks over all processors.
    cpu: Option<(u64, u64)>,
    /// Received and sent bytes.
    net: Option<(u64, u64)>,
}

/// What happened between two [`Ticks`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    pub cpu_util_pct: Option<f64>,
    pub net_rx_bps: Option<u64>,
    pub net_tx_bps: Option<u64>,
}

impl Ticks {
    pub(crate) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self { at: Instant::now(), cpu: cpu(&read("/proc/stat")), net: net(&read("/proc/net/dev")) }
    }

    pub(crate) fn age(&self) -> std::time::Duration {
        self.at.elapsed()
    }

    pub(crate) fn since(&self, before: &Self) -> Rates {
        let cpu = self.cpu.zip(before.cpu).and_then(|(now, before)| {
            let all = now.1.checked_sub(before.1).filter(|it| *it > 0)?;
            let busy = now.0.saturating_sub(before.0).min(all);
            Some(tenths(busy as f64 / all as f64 * 100.0))
        });
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        // If an interface is removed, its count goes too: then the rate is unknown.
        let net = self.net.zip(before.net).filter(|_| seconds > 0.0);
        let rate = |now: u64, before: u64| Some((now.checked_sub(before)? as f64 / seconds) as u64);
        Rates {
            cpu_util_pct: cpu,
            net_rx_bps: net.and_then(|(now, before)| rate(now.0, before.0)),
            net_tx_bps: net.and_then(|(now, before)| rate(now.1, before.1)),
        }
    }
}

pub(crate) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Parses `cpu  user nice system idle iowait irq softirq steal …` (`proc_stat(5)`). The time of guests is part of
/// `user`.
fn cpu(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().take(8).map_while(|it| it.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    let all: u64 = fields.iter().sum();
    Some((all - idle, all))
}

/// Sums received and sent bytes. Interfaces of containers and bridges are left out: they carry what an outer one
/// carries too.
fn net(dev: &str) -> Option<(u64, u64)> {
    const INNER: [&str; 7] = ["lo", "veth", "docker", "br-", "virbr", "cni", "flannel"];
    let mut sum = None;
    for line in dev.lines().skip(2) {
        let Some((name, counts)) = line.trim().split_once(':') else { continue };
        if INNER.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        let counts: Vec<u64> = counts.split_whitespace().map_while(|it| it.parse().ok()).collect();
        if let (Some(rx), Some(tx)) = (counts.first(), counts.get(8)) {
            let (all_rx, all_tx) = sum.unwrap_or((0_u64, 0_u64));
            sum = Some((all_rx.saturating_add(*rx), all_tx.saturating_add(*tx)));
        }
    }
    sum
}

/// Returns swap in MiB: total, and used.
pub(crate) fn swap() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| -> Option<u64> {
        text.lines().find_map(|it| it.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    let (total, free) = (kib("SwapTotal:")?, kib("SwapFree:")?);
    Some((total >> 10, total.saturating_sub(free) >> 10))
}

pub(crate) fn load_avg() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut numbers = text.split_whitespace().map_while(|it| it.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

pub(crate) fn uptime_sec() -> Option<u64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? as u64)
}

/// Returns the file systems of some folders, each once. Folders that do not exist are left out.
pub(crate) fn disks(folders: &[(&'static str, PathBuf)]) -> Vec<Disk> {
    let mut disks: Vec<(u64, Disk)> = Vec::new();
    for (holds, path) in folders {
        let Ok(meta) = fs::metadata(path) else { continue };
        let device = std::os::unix::fs::MetadataExt::dev(&meta);
        if let Some((_, disk)) = disks.iter_mut().find(|it| it.0 == device) {
            disk.holds.push(holds);
        } else if let Some(disk) = disk(holds, path) {
            disks.push((device, disk));
        }
    }
    disks.into_iter().map(|it| it.1).collect()
}

/// Counts as `df` does: space that is reserved for root is neither used nor free.
fn disk(holds: &'static str, path: &Path) -> Option<Disk> {
    let seen = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(seen.f_frsize);
    let used = bytes(seen.f_blocks.saturating_sub(seen.f_bfree));
    let usable = used + bytes(seen.f_bavail);
    (usable > 0).then(|| Disk {
        holds: vec![holds],
        total_mb: bytes(seen.f_blocks) / MIB,
        used_mb: used / MIB,
        used_pct: tenths(used as f64 / usable as f64 * 100.0),
    })
}

/// Returns figures of this process.
pub fn process() -> ProcessNow {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> Option<u64> {
        status.lines().find_map(|it| it.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    ProcessNow {
        rss_mb: field("VmRSS:").map(|kib| kib >> 10),
        // One of them is opened by this call itself.
        open_fds: fs::read_dir("/proc/self/fd").ok().map(|it| (it.count() as u64).saturating_sub(1)),
        threads: field("Threads:"),
        cpu_seconds: cpu_seconds(),
    }
}

/// Returns the sum of `utime` and `stime` of `proc_pid_stat(5)`. The process name before them may contain anything, but
/// ends with the last `)`.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns the container that a process runs in, by the 64 digits of its id in `/proc/PID/cgroup`, which Docker,
/// containerd and Podman all put there. `None` also for a process of another namespace, whose files can't be seen.
pub fn container_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.split(|it: char| !it.is_ascii_hexdigit()).find(|it| it.len() == 64).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_differences_of_what_the_kernel_counts() {
        let dev = "Inter-| Receive | Transmit\n face |bytes ...\n    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n\
                   veth1: 70 1 0 0 0 0 0 0 70 1 0 0 0 0 0 0\n  eth0: 5000 1 0 0 0 0 0 0 300 1 0 0 0 0 0 0\n";
        let at = Instant::now();
        let before = Ticks { at, cpu: cpu("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1"), net: net(dev) };
        assert_eq!((before.cpu, before.net), (Some((20, 100)), Some((5000, 300))));
        let after =
            Ticks { at: at + Duration::from_secs(10), cpu: Some((45, 200)), net: Some((25_000, 1300)) };
        let rates = after.since(&before);
        assert_eq!(
            (rates.cpu_util_pct, rates.net_rx_bps, rates.net_tx_bps),
            (Some(25.0), Some(2000), Some(100))
        );
        // The interface was made anew.
        let reset = Ticks { net: Some((10, 10)), ..after };
        assert_eq!(reset.since(&before).net_rx_bps, None);
    }

    #[test]
    fn folders_of_one_file_system_are_one_disk() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks(&[
            ("data", dir.path().into()),
            ("models", dir.path().into()),
            ("hub_cache", dir.path().join("not there")),
        ]);
        assert_eq!(disks.len(), 1);
        assert_eq!(disks[0].holds, ["data", "models"]);
        assert!((0.0..=100.0).contains(&disks[0].used_pct) && disks[0].used_mb <= disks[0].total_mb);
    }
}
