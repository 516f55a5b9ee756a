//! Reads a file that lists the GPUs, for a gateway that can't see those of its container host. The file has the form of
//! the answer of `GET /admin/system/gpus`, so that it can be recorded on a machine that sees them.

use std::{fs, io, path::Path};

use gantry_domain::{
    machine::{Gpu, GpuLoad, GpuProcess, GpuVendor},
    memory::GpuMemory,
};
use serde::Deserialize;

/// Highest index, as `selected_gpus` has it.
const MAX_INDEX: u32 = 63;
const MIB: u64 = 1 << 20;

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("can't read the file")]
    Unreadable(#[source] io::Error),
    #[error("the file must hold a JSON list of GPUs as `GET /admin/system/gpus` shows them")]
    Malformed(#[source] serde_json::Error),
    #[error("GPU {index}: {why}")]
    Gpu { index: u32, why: &'static str },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    index: u32,
    name: String,
    #[serde(default)]
    vendor: GpuVendor,
    mem_total_mb: Option<u64>,
    mem_used_mb: Option<u64>,
    compute_capability: Option<String>,
    #[serde(default)]
    processes: Vec<Process>,
    /// Follows from the compute capability.
    #[serde(default, rename = "architecture")]
    _architecture: Option<String>,
    #[serde(default, rename = "flash_attention_supported")]
    _flash_attention: bool,
    /// Measured when the file was recorded, and ignored, as are the fields below.
    #[serde(default, rename = "util_pct")]
    _util: Option<u32>,
    #[serde(default, rename = "temperature_c")]
    _temperature: Option<u32>,
    #[serde(default, rename = "power_w")]
    _power: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    pid: u32,
    mem_mb: u64,
    #[serde(default, rename = "model_id")]
    _model: Option<i64>,
    #[serde(default, rename = "served_name")]
    _served_name: Option<String>,
}

/// Reads the file. Blocking.
pub(super) fn read(path: &Path) -> Result<Vec<Gpu>, InventoryError> {
    parse(&fs::read(path).map_err(InventoryError::Unreadable)?)
}

fn parse(text: &[u8]) -> Result<Vec<Gpu>, InventoryError> {
    let entries: Vec<Entry> = serde_json::from_slice(text).map_err(InventoryError::Malformed)?;
    let mut gpus = Vec::<Gpu>::new();
    for entry in entries {
        let gpu = entry.check()?;
        if gpus.iter().any(|it| it.index == gpu.index) {
            return Err(InventoryError::Gpu { index: gpu.index, why: "it is there twice" });
        }
        gpus.push(gpu);
    }
    gpus.sort_unstable_by_key(|it| it.index);
    Ok(gpus)
}

impl Entry {
    fn check(self) -> Result<Gpu, InventoryError> {
        let index = self.index;
        let refuse = |why| Err(InventoryError::Gpu { index, why });
        if index > MAX_INDEX {
            return refuse("the index must be at most 63");
        }
        let used = self.mem_used_mb.unwrap_or(0);
        if self.mem_total_mb.is_some_and(|it| it == 0 || used > it) {
            return refuse("`mem_total_mb` must be more than 0 and at least `mem_used_mb`");
        }
        let compute_capability = match self.compute_capability.as_deref().map(capability) {
            Some(None) => return refuse("`compute_capability` must be like \"9.0\""),
            other => other.flatten(),
        };
        Ok(Gpu {
            index,
            name: self.name,
            vendor: self.vendor,
            memory: self.mem_total_mb.map(|total| GpuMemory {
                total: total.saturating_mul(MIB),
                free: total.saturating_sub(used).saturating_mul(MIB),
            }),
            load: GpuLoad::default(),
            compute_capability,
            processes: self
                .processes
                .iter()
                .map(|it| GpuProcess { pid: it.pid, bytes: it.mem_mb.saturating_mul(MIB) })
                .collect(),
        })
    }
}

fn capability(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_meant_is_refused_with_the_reason() {
        let gpu = |rest: &str| format!(r#"{{ "index": 1, "name": "x"{rest} }}"#);
        for (text, said) in [
            (String::from("{}"), "JSON list"),
            (format!("[{}]", gpu(r#", "memory": 1"#)), "JSON list"),
            (format!("[{}, {}]", gpu(""), gpu("")), "GPU 1: it is there twice"),
            (format!("[{}]", gpu(r#", "mem_total_mb": 1, "mem_used_mb": 2"#)), "GPU 1: `mem_total_mb`"),
            (format!("[{}]", gpu(r#", "compute_capability": "9""#)), "GPU 1: `compute_capability`"),
            (String::from(r#"[{ "index": 64, "name": "x" }]"#), "GPU 64: the index"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
