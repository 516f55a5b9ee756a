//! The hardware of the machine that engines run on.

use serde::{Deserialize, Serialize};

use crate::memory::GpuMemory;

/// Who made a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    /// Known by its driver's library.
    #[default]
    Nvidia,
    /// Known by the kernel's files.
    Amd,
}

impl GpuVendor {
    pub const ALL: [Self; 2] = [Self::Nvidia, Self::Amd];

    /// Returns the word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
    }
}

/// One GPU. A value that its driver does not report is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The number that the driver gives it, from 0. Containers are given GPUs by this number.
    pub index: u32,
    pub name: String,
    pub vendor: GpuVendor,
    pub memory: Option<GpuMemory>,
    /// Share of time in which it computed, temperature and power draw.
    pub load: GpuLoad,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// Processes that hold memory on it, as far as the driver reports them.
    pub processes: Vec<GpuProcess>,
}

/// How busy a GPU is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuLoad {
    /// Share of time in which the GPU computed, 0–100.
    pub util_pct: Option<u32>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<f64>,
}

/// Memory that one process holds on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// Process id in the namespace of the machine.
    pub pid: u32,
    /// Memory in bytes.
    pub bytes: u64,
}

impl Gpu {
    /// Returns the name of its generation (table "Compute Capabilities" of NVIDIA's CUDA C++ Programming Guide).
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

    /// Whether Flash Attention 2 runs on it: it needs compute capability 8.0 or later.
    pub fn flash_attention(&self) -> bool {
        self.compute_capability.is_some_and(|it| it.0 >= 8)
    }
}

/// RAM, in bytes. If the gateway runs in a container with a memory limit, the values are those of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    pub total: u64,
    /// Memory that can be allocated without swapping.
    pub available: u64,
}
