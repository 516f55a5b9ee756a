//! Describes what the gateway runs on: system, container, control groups, container runtime, GPU tools, and which
//! sources of measurements are available, or why not.

use std::{fs, path::Path, sync::Arc};

use gantry_domain::host::{Capabilities, Cgroup, Container, Cpu, Os, Provider, RuntimeFound, Supervision};

use super::Machine;
use crate::Control;

const MIB: u64 = 1 << 20;
/// Smallest value that counts as no limit: without a limit, a control group of version 1 shows a value near `i64::MAX`,
/// rounded to pages.
pub(super) const NO_LIMIT: u64 = 1 << 60;

impl Control {
    /// Returns what the gateway runs on; `None` if looking at it failed.
    pub async fn capabilities(&self) -> Option<Capabilities> {
        let none =
            RuntimeFound { available: false, name: None, version: None, api_version: None, detail: None };
        let found = match self.runtime.info().await {
            Ok(info) => RuntimeFound {
                available: true,
                name: Some(info.name.to_owned()),
                version: Some(info.version),
                api_version: info.api_version,
                ..none
            },
            Err(error) => RuntimeFound { detail: Some(error.to_string()), ..none },
        };
        let (machine, supervision) = (Arc::clone(&self.machine), self.supervision.view());
        tokio::task::spawn_blocking(move || gather(&machine, found, supervision)).await.ok()
    }
}

/// Looks at everything but the container runtime. Blocking.
fn gather(machine: &Machine, container_runtime: RuntimeFound, supervision: Supervision) -> Capabilities {
    let read = |path: &str| fs::read_to_string(path).ok();
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease").map(|it| it.trim().to_owned());
    Capabilities {
        os: Os {
            name: read("/etc/os-release").as_deref().and_then(pretty_name),
            wsl: kernel.as_deref().and_then(wsl),
            kernel,
            arch: std::env::consts::ARCH,
        },
        container: container(),
        cgroup: cgroup(),
        cpu: Cpu {
            model: value(&cpuinfo, "model name"),
            count: cpuinfo.lines().filter(|it| it.starts_with("processor")).count(),
            usable: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        },
        container_runtime,
        supervision,
        gpu_toolkit: gpu_toolkit(),
        monitoring: monitoring(machine),
    }
}

fn value(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|it| it.strip_prefix(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// os-release(5)
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|it| it.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

/// Returns the version of WSL, if it is WSL. Microsoft's kernels have their name in the release:
/// `4.4.0-19041-Microsoft` (1), `5.15.90.1-microsoft-standard-WSL2` (2).
fn wsl(release: &str) -> Option<u8> {
    let release = release.to_ascii_lowercase();
    release.contains("microsoft").then(|| if release.contains("wsl2") { 2 } else { 1 })
}

fn container() -> Container {
    let evidence = if Path::new("/.dockerenv").exists() {
        Some("/.dockerenv")
    } else if Path::new("/run/.containerenv").exists() {
        Some("/run/.containerenv")
    } else if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        Some("KUBERNETES_SERVICE_HOST")
    } else if std::env::var_os("container").is_some() {
        Some("the variable `container`")
    } else {
        None
    };
    Container { inside: evidence.is_some(), evidence }
}

/// Returns the limits of the gateway's own group, if the gateway sees it as the root of its view (as in a container).
fn cgroup() -> Cgroup {
    let root = Path::new("/sys/fs/cgroup");
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
    if root.join("cgroup.controllers").exists() {
        return Cgroup {
            version: Some(2),
            memory_limit_mb: number("memory.max").map(|it| it / MIB),
            cpu_limit: read("cpu.max").as_deref().and_then(quota),
        };
    }
    if !root.join("memory").exists() && !root.join("cpu").exists() {
        return Cgroup::default();
    }
    let period = number("cpu/cpu.cfs_period_us").filter(|it| *it > 0);
    let quota = number("cpu/cpu.cfs_quota_us");
    Cgroup {
        version: Some(1),
        memory_limit_mb: number("memory/memory.limit_in_bytes")
            .filter(|it| *it < NO_LIMIT)
            .map(|it| it / MIB),
        cpu_limit: quota.zip(period).map(|(quota, period)| quota as f64 / period as f64),
    }
}

/// Parses `max 100000`, or `150000 100000`: 1.5 processors.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// Looks for the tools that give GPUs to containers, as far as they can be seen from here.
fn gpu_toolkit() -> Provider {
    let name = "nvidia-container-toolkit";
    let cdi = ["/etc/cdi", "/var/run/cdi"].into_iter().find(|dir| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|it| it.file_name()).any(|it| it.to_string_lossy().contains("nvidia"))
    });
    let program = ["nvidia-ctk", "nvidia-container-runtime"].into_iter().find(|it| in_path(it));
    let (available, detail) = match (program, cdi) {
        (Some(program), Some(dir)) => (true, format!("`{program}`, and devices in {dir}")),
        (Some(program), None) => (true, format!("`{program}`")),
        (None, Some(dir)) => (true, format!("devices in {dir}")),
        (None, None) => (false, "neither `nvidia-ctk` nor a CDI file of NVIDIA is there".to_owned()),
    };
    Provider { name, available, detail }
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn monitoring(machine: &Machine) -> Vec<Provider> {
    let found = |name, state: Result<String, String>| match state {
        Ok(detail) => Provider { name, available: true, detail },
        Err(detail) => Provider { name, available: false, detail },
    };
    let file = |path: &str, says: &str| {
        fs::read_to_string(path).map(|_| says.to_owned()).map_err(|it| format!("{path}: {}", it.kind()))
    };
    let amd = if super::amd::gpus().is_empty() {
        Err("no card of the amdgpu driver in /sys/class/drm".to_owned())
    } else {
        Ok("sysfs".to_owned())
    };
    let recorded = if machine.is_recorded() {
        Ok("the GPUs are those of the file; no driver is asked".to_owned())
    } else {
        Err("GPU_INVENTORY_FILE is not set".to_owned())
    };
    vec![
        found("procfs", file("/proc/stat", "processors, memory, network")),
        found("nvml", machine.nvml().map(|version| format!("driver {version}"))),
        found("amdgpu", amd),
        found("inventory_file", recorded),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_told_by_what_they_write() {
        assert_eq!(wsl("5.15.90.1-microsoft-standard-WSL2"), Some(2));
        assert_eq!(wsl("4.4.0-19041-Microsoft"), Some(1));
        assert_eq!(wsl("6.12.48+deb13-amd64"), None);
        assert_eq!(
            pretty_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n").unwrap(),
            "Debian GNU/Linux 13"
        );
        assert_eq!((quota("max 100000\n"), quota("150000 100000\n")), (None, Some(1.5)));
    }
}
