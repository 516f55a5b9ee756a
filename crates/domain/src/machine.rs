//! The machine that engines run on, as whoever looks at it describes it.

use serde::{Deserialize, Serialize};

use crate::memory::GpuMemory;

/// Who made a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    #[default]
    Nvidia,
    Amd,
}

/// One GPU. What its driver does not tell is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// As the driver counts, from 0; containers are given GPUs by it.
    pub index: u32,
    pub name: String,
    pub vendor: GpuVendor,
    pub memory: Option<GpuMemory>,
    /// Share of the time in which it computed, temperature and draw.
    pub load: GpuLoad,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// Processes that hold memory, as far as the driver tells.
    pub processes: Vec<GpuProcess>,
}

/// How busy a GPU is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuLoad {
    /// 0–100.
    pub util_pct: Option<u32>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<f64>,
}

/// A process's hold on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// In the namespace of the machine.
    pub pid: u32,
    /// In bytes.
    pub bytes: u64,
}

impl Gpu {
    /// The name of its generation (table "Compute Capabilities" of NVIDIA's CUDA C++ Programming Guide).
    pub fn architecture(&self) -> Option<&'static str> {
        Some(match self.compute_capability? {
            (3, _) => "Kepler",
            (5, _) => "Maxwell",
            (6, _) => "Pascal",
            (7, 5) => "Turing",
            (7, _) => "Volta",
            (8, 9) => "Ada",
            (8, _) => "Ampere",
            (9, _) => "Hopper",
            (10..=12, _) => "Blackwell",
            _ => return None,
        })
    }

    /// Whether Flash Attention 2 runs on it: from compute capability 8.0 on.
    pub fn flash_attention(&self) -> bool {
        self.compute_capability.is_some_and(|it| it.0 >= 8)
    }
}

/// RAM, in bytes; where the gateway runs in a container with a limit, of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    pub total: u64,
    /// What can be had without swapping.
    pub available: u64,
}
