//! How much memory the gateway's own process may have.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::capabilities::NO_LIMIT;

/// Returns the memory that this process may have, in bytes: the least of the machine's and of what its control groups allow.
/// `None` if none of them can be read.
pub fn own_memory() -> Option<u64> {
    least(Path::new("/"), &fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
}

/// `groups` is `/proc/self/cgroup` (cgroups(7)).
fn least(root: &Path, groups: &str) -> Option<u64> {
    let mounts = root.join("sys/fs/cgroup");
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (mount, file) = match controllers {
            "" => (mounts.clone(), "memory.max"),
            it if it.split(',').any(|it| it == "memory") => (mounts.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        limit(&mount, path, file)
    });
    limits.chain(machine(root)).min()
}

/// Returns the least limit of a group and of those that it is in. In a container the path may be that of the machine, of which
/// only the top is there.
fn limit(mount: &Path, group: &str, file: &str) -> Option<u64> {
    let group: PathBuf = mount.join(group.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|it| it.starts_with(mount));
    let limits = groups.filter_map(|it| fs::read_to_string(it.join(file)).ok()?.trim().parse::<u64>().ok());
    limits.filter(|it| *it < NO_LIMIT).min()
}

/// meminfo(5)
fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_and_of_the_machine_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = |groups: &str| least(root.path(), groups);
        assert_eq!(found("0::/"), None);
        write("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 7 kB\n");
        assert_eq!(found("0::/"), Some(2 << 20));
        write("sys/fs/cgroup/system.slice/gantry.service/memory.max", "max\n");
        write("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
        assert_eq!(found("0::/system.slice/gantry.service\n"), Some(1_000_000));
        assert_eq!(found("0::/elsewhere\n"), Some(2 << 20));
        // Version 1, seen from within a container.
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
        assert_eq!(found("4:cpu,cpuacct:/\n3:memory:/docker/0123\n1:name=systemd:/\n"), Some(500_000));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found("3:memory:/docker/0123\n"), Some(2 << 20));
    }
}
