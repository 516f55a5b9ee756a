//! Reads NVIDIA GPUs through NVML. Its library comes with the driver and is loaded at run time: a machine without it is
//! normal.

use std::collections::BTreeMap;

use gantry_domain::{
    machine::{Gpu, GpuLoad, GpuProcess, GpuVendor},
    memory::GpuMemory,
};
use nvml_wrapper::{
    Device, Nvml, enum_wrappers::device::TemperatureSensor, enums::device::UsedGpuMemory, error::NvmlError,
};

/// Returns the GPUs of this machine; `None` without a driver. `library` is kept for the next look. Blocking.
pub(super) fn gpus(library: &mut Option<Nvml>) -> Option<Vec<Gpu>> {
    let nvml = match library {
        Some(nvml) => nvml,
        None => library.insert(Nvml::init().inspect_err(told).ok()?),
    };
    let Ok(count) = nvml.device_count().inspect_err(told) else {
        // The driver was unloaded, or replaced by another version: the next look loads it again.
        *library = None;
        return None;
    };
    let gpus: Vec<Gpu> = (0..count)
        .filter_map(|index| {
            let device = nvml.device_by_index(index).inspect_err(told).ok()?;
            Some(gpu(index, &device))
        })
        .collect();
    (!gpus.is_empty()).then_some(gpus)
}

/// Returns the driver's version, or why it is not used. Blocking.
pub(super) fn state(library: &mut Option<Nvml>) -> Result<String, String> {
    let nvml = match library {
        Some(nvml) => nvml,
        None => library.insert(Nvml::init().map_err(|it| it.to_string())?),
    };
    nvml.sys_driver_version().map_err(|it| it.to_string())
}

fn told(error: &NvmlError) {
    tracing::debug!(%error, "NVML");
}

fn gpu(index: u32, device: &Device<'_>) -> Gpu {
    let capability = device.cuda_compute_capability().ok();
    Gpu {
        index,
        name: device.name().unwrap_or_else(|_| format!("GPU {index}")),
        vendor: GpuVendor::Nvidia,
        memory: device.memory_info().ok().map(|it| GpuMemory { total: it.total, free: it.free }),
        load: GpuLoad {
            util_pct: device.utilization_rates().ok().map(|it| it.gpu),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0),
        },
        compute_capability: capability
            .and_then(|it| Some((it.major.try_into().ok()?, it.minor.try_into().ok()?))),
        processes: processes(device),
    }
}

/// Returns the processes that compute and those that draw. A process that does both is in both lists, with the same
/// memory.
fn processes(device: &Device<'_>) -> Vec<GpuProcess> {
    let lists = [device.running_compute_processes(), device.running_graphics_processes()];
    let mut held = BTreeMap::<u32, u64>::new();
    for process in lists.into_iter().flatten().flatten() {
        if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
            let most = held.entry(process.pid).or_default();
            *most = bytes.max(*most);
        }
    }
    held.into_iter().map(|(pid, bytes)| GpuProcess { pid, bytes }).collect()
}
