//! The machine: folders and space, limits, clock, cgroups, GPUs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gantry_settings::Settings;
use rustix::{
    fs::{Access, access, statvfs},
    process::{Resource, getrlimit},
};

use super::Check;

/// Below this a database and a usage spool run full within days.
const LEAST_SPACE: u64 = 2 << 30;
/// A connection of a client and one to its engine, for a few thousand of them.
const FILES: u64 = 8192;
/// Before this the clock was never set: the year 2025, in seconds since 1970.
const CLOCK_SET: i64 = 1_735_689_600;

/// Every check that needs no service.
pub fn machine(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![data_dir(&settings.data_dir), models_dir(&settings.models_dir())];
    checks.extend([files(), memlock(), clock(), cgroup()]);
    checks.extend(gpus());
    checks
}

fn data_dir(dir: &Path) -> Check {
    const NAME: &str = "data_dir";
    let there = existing(dir);
    let shown = dir.display();
    if !there.is_dir() || access(&there, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Check::fail(
            NAME,
            format!("{shown}: {} is no folder that this user can write to", there.display()),
            "The database, secrets and usage are kept there: the gateway does not start.",
            &format!("sudo install -d -m 700 -o \"$(id -un)\" {shown}, or set DATA_DIR"),
        );
    }
    let free = free(&there);
    if free < LEAST_SPACE {
        return Check::warn(
            NAME,
            format!("{shown} has {} free", size(free)),
            "A full disk stops metering, and with it inference.",
            "make room, or set DATA_DIR to another disk; USAGE_RETENTION_DAYS keeps less",
        );
    }
    let state = if there == dir { "is writable" } else { "will be made" };
    Check::ok(NAME, format!("{shown} {state}, {} free", size(free)))
}

fn models_dir(dir: &Path) -> Check {
    const NAME: &str = "models_dir";
    let shown = dir.display();
    match fs::read_dir(dir) {
        Ok(entries) => {
            Check::ok(NAME, format!("{shown} has {} entries, {} free", entries.count(), size(free(dir))))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Check::warn(
            NAME,
            format!("{shown} is not there yet"),
            "The gateway makes it, empty: there is no model in it.",
            &format!("mkdir -p {shown}, and put models there; or set MODELS_DIR"),
        ),
        Err(error) => Check::fail(
            NAME,
            format!("{shown}: {error}"),
            "Engines get their models from there: none would start.",
            &format!("sudo chmod a+rX {shown}, or set MODELS_DIR"),
        ),
    }
}

/// The folder, or the nearest one above it that is there.
fn existing(dir: &Path) -> PathBuf {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    dir.ancestors().find(|it| it.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn free(dir: &Path) -> u64 {
    statvfs(dir).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize))
}

fn size(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn files() -> Check {
    const NAME: &str = "open_files";
    let limit = getrlimit(Resource::Nofile);
    match limit.current {
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

fn memlock() -> Check {
    const NAME: &str = "locked_memory";
    match getrlimit(Resource::Memlock).current {
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
    let now = crate::now();
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
            "nothing, if that is meant; else look for the card with `lspci`",
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

/// What gives containers the GPUs.
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

/// Whether a program of this name can be run.
fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| access(dir.join(name), Access::EXEC_OK).is_ok())
}
