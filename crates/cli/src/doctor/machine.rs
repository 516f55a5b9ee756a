//! Checks of the machine: limits, clock, cgroups, GPUs.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{Access, access},
    process::{Resource, getrlimit},
};
use serde::{Deserialize, Serialize};

use super::{Check, folders::size};

/// Recommended limit of open files: a client connection and an engine connection each for a few thousand clients.
const FILES: u64 = 8192;
/// Before this the clock was never set: the year 2025, in seconds since 1970.
const CLOCK_SET: i64 = 1_735_689_600;

/// Limits of a process (`setrlimit(2)`); `None` means no limit.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    open_files: Option<u64>,
    /// Bytes.
    locked_memory: Option<u64>,
}

impl Limits {
    /// Returns the limits of this process.
    pub fn own() -> Self {
        let of = |resource| getrlimit(resource).current;
        Self { open_files: of(Resource::Nofile), locked_memory: of(Resource::Memlock) }
    }
}

/// Checks the limits of the gateway's process.
pub fn limits(limits: Limits) -> Vec<Check> {
    vec![files(limits), memlock(limits)]
}

/// Runs every check that needs neither a service, nor a folder, nor the gateway's process. Asks programs of this machine.
pub fn machine() -> Vec<Check> {
    let mut checks = vec![clock(), cgroup()];
    checks.extend(gpus());
    checks
}

fn files(limits: Limits) -> Check {
    const NAME: &str = "open_files";
    match limits.open_files {
        Some(n) if n < FILES => Check::warn(
            NAME,
            format!("at most {n} open files"),
            "Each request takes two; beyond that clients are refused.",
            "ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit",
        ),
        Some(n) => Check::ok(NAME, format!("at most {n}")),
        None => Check::ok(NAME, "no limit"),
    }
}

fn memlock(limits: Limits) -> Check {
    const NAME: &str = "locked_memory";
    match limits.locked_memory {
        None => Check::ok(NAME, "no limit"),
        Some(bytes) if bytes >= 1 << 30 => Check::ok(NAME, format!("at most {}", size(bytes))),
        Some(bytes) => Check::warn(
            NAME,
            format!("at most {} KiB for this user's own processes", bytes >> 10),
            "`mlock` of llama.cpp has no effect where engines run as processes; containers have a limit of their own.",
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the systemd unit",
        ),
    }
}

fn clock() -> Check {
    const NAME: &str = "clock";
    let now = crate::times::now();
    let text = now.rfc3339();
    let set = text.parse::<jiff::Timestamp>().is_ok_and(|it| it.as_second() > CLOCK_SET);
    if !set {
        return Check::fail(
            NAME,
            text,
            "The clock was never set: sessions, certificates and usage get wrong times.",
            "sudo timedatectl set-ntp true, or set it by hand with `date -s`",
        );
    }
    let synchronised = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|it| it.status.success())
        .map(|it| it.stdout.starts_with(b"yes"));
    match synchronised {
        Some(false) => Check::warn(
            NAME,
            format!("{text}, not synchronised"),
            "Usage and sessions of several gateways may disagree about the time.",
            "sudo timedatectl set-ntp true",
        ),
        Some(true) => Check::ok(NAME, format!("{text}, synchronised")),
        None => Check::ok(NAME, text),
    }
}

fn cgroup() -> Check {
    const NAME: &str = "cgroup";
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Check::ok(NAME, "version 2");
    }
    Check::warn(
        NAME,
        if Path::new("/sys/fs/cgroup/memory").exists() { "version 1" } else { "not mounted" },
        "Memory limits and out-of-memory kills of engines are seen less exactly.",
        "boot with systemd.unified_cgroup_hierarchy=1",
    )
}

fn gpus() -> Vec<Check> {
    const NAME: &str = "gpu";
    let devices = fs::read_dir("/dev").into_iter().flatten().flatten();
    let numbered = |name: &str| {
        name.strip_prefix("nvidia")
            .is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
    };
    let n_nvidia = devices.filter(|it| it.file_name().to_str().is_some_and(numbered)).count();
    let on_bus = vendor_on_bus("0x10de");
    if n_nvidia == 0 && !on_bus {
        if Path::new("/dev/kfd").exists() {
            return vec![Check::ok(NAME, "AMD, with its driver (/dev/kfd)")];
        }
        return vec![Check::warn(
            NAME,
            "none found",
            "Engines run on the CPU: llama.cpp does, vLLM only with an image for it.",
            "nothing, if that is intended; otherwise look for the card with `lspci`",
        )];
    }
    let asked = Command::new("nvidia-smi")
        .args(["--query-gpu=name,driver_version", "--format=csv,noheader"])
        .stderr(Stdio::null())
        .output();
    let mut checks = vec![match asked {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Check::ok(NAME, text.lines().map(str::trim).collect::<Vec<_>>().join("; "))
        }
        Ok(_) | Err(_) if n_nvidia > 0 => Check::warn(
            NAME,
            format!("{n_nvidia} NVIDIA devices, but nvidia-smi does not answer"),
            "The driver's tools or library (libnvidia-ml) are missing: memory of the GPUs is not known.",
            "install the driver's utilities, on Debian: sudo apt-get install nvidia-smi",
        ),
        _ => Check::fail(
            NAME,
            "an NVIDIA card without its driver",
            "Engines can't use it.",
            "install the driver, on Debian: sudo apt-get install nvidia-driver, and restart the machine",
        ),
    }];
    checks.push(toolkit());
    checks
}

fn vendor_on_bus(vendor: &str) -> bool {
    let devices = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let display = |dir: &Path| fs::read_to_string(dir.join("class")).is_ok_and(|it| it.starts_with("0x03"));
    let of = |dir: &Path| fs::read_to_string(dir.join("vendor")).is_ok_and(|it| it.trim() == vendor);
    devices.map(|it| it.path()).any(|dir| of(&dir) && display(&dir))
}

/// Checks for the NVIDIA programs that give containers access to GPUs.
fn toolkit() -> Check {
    const NAME: &str = "gpu_in_containers";
    let programs = ["nvidia-container-runtime", "nvidia-container-cli", "nvidia-ctk"];
    match programs.iter().find(|it| in_path(it)) {
        Some(program) => Check::ok(NAME, format!("{program} is there")),
        None => Check::warn(
            NAME,
            "the NVIDIA container toolkit is not installed",
            "Containers get no GPU: engines fail with GpuUnavailable.",
            "sudo apt-get install nvidia-container-toolkit && sudo nvidia-ctk runtime configure --runtime=docker && sudo \
             systemctl restart docker",
        ),
    }
}

/// Returns whether `PATH` has an executable program of this name.
fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| access(dir.join(name), Access::EXEC_OK).is_ok())
}
