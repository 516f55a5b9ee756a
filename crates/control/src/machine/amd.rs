//! Reads AMD GPUs from the files of the `amdgpu` driver (kernel `Documentation/gpu/amdgpu/driver-misc.rst`).

use std::{fs, path::Path};

use gantry_domain::{
    machine::{Gpu, GpuLoad, GpuVendor},
    memory::GpuMemory,
};

/// PCI vendor id.
const AMD: &str = "0x1002";

/// Returns the GPUs of this machine, by card number. The files don't say which processes hold their memory. Blocking.
pub(super) fn gpus() -> Vec<Gpu> {
    gpus_in(Path::new("/sys/class/drm"))
}

fn gpus_in(dir: &Path) -> Vec<Gpu> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut cards: Vec<(u32, std::path::PathBuf)> = entries
        .flatten()
        .filter_map(|it| {
            // `card1-DP-1` is a connector of `card1`.
            let number = it.file_name().to_str()?.strip_prefix("card")?.parse().ok()?;
            Some((number, it.path().join("device")))
        })
        .collect();
    cards.sort_unstable();
    let amd = cards.into_iter().filter(|(_, device)| text(device, "vendor").as_deref() == Some(AMD));
    amd.zip(0..).map(|((_, device), index)| gpu(index, &device)).collect()
}

fn gpu(index: u32, device: &Path) -> Gpu {
    let bytes = |file: &str| text(device, file)?.parse::<u64>().ok();
    let memory = bytes("mem_info_vram_total").zip(bytes("mem_info_vram_used"));
    Gpu {
        index,
        name: text(device, "product_name").filter(|it| !it.is_empty()).unwrap_or_else(|| {
            format!("AMD GPU {}", text(device, "device").unwrap_or_default()).trim_end().to_owned()
        }),
        vendor: GpuVendor::Amd,
        memory: memory.map(|(total, used)| GpuMemory { total, free: total.saturating_sub(used) }),
        load: GpuLoad {
            util_pct: text(device, "gpu_busy_percent").and_then(|it| it.parse().ok()),
            ..GpuLoad::default()
        },
        compute_capability: None,
        processes: Vec::new(),
    }
}

fn text(device: &Path, file: &str) -> Option<String> {
    fs::read_to_string(device.join(file)).ok().map(|it| it.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_as_the_driver_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let write = |card: &str, files: &[(&str, &str)]| {
            let device = dir.path().join(card).join("device");
            fs::create_dir_all(&device).unwrap();
            for (name, text) in files {
                fs::write(device.join(name), format!("{text}\n")).unwrap();
            }
        };
        let (total, used) = (("mem_info_vram_total", "17163091968"), ("mem_info_vram_used", "27537408"));
        write("card10", &[("vendor", AMD), ("device", "0x744c"), ("product_name", "")]);
        write("card2", &[("vendor", AMD), ("product_name", "AMD Instinct MI210"), total, used]);
        write("card2-DP-1", &[("vendor", AMD)]);
        write("card0", &[("vendor", "0x10de"), total, used]);
        write("renderD128", &[("vendor", AMD)]);
        let gpus = gpus_in(dir.path());
        let names: Vec<_> = gpus.iter().map(|it| (it.index, it.name.as_str())).collect();
        assert_eq!(names, [(0, "AMD Instinct MI210"), (1, "AMD GPU 0x744c")]);
        let memory = GpuMemory { total: 17_163_091_968, free: 17_163_091_968 - 27_537_408 };
        assert_eq!((gpus[0].memory, gpus[1].memory), (Some(memory), None));
    }
}
