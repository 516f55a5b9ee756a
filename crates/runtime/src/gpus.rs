//! Finds this machine's GPUs by their device nodes: no driver library is linked, and none has to be installed.

use std::path::Path;

/// Returns the indexes of the machine's NVIDIA GPUs in ascending order; none on a machine without GPUs.
pub fn host_gpus() -> Vec<u32> {
    gpus_in(Path::new("/dev"))
}

fn gpus_in(dir: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut gpus: Vec<u32> = entries.flatten().filter_map(|it| gpu_index(it.file_name().to_str()?)).collect();
    gpus.sort_unstable();
    gpus
}

/// `nvidia3` is GPU 3; `nvidiactl`, `nvidia-uvm` and the like are the driver's own nodes.
fn gpu_index(file: &str) -> Option<u32> {
    let digits = file.strip_prefix("nvidia")?;
    digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_devices_of_gpus_count_and_they_are_sorted_by_number() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["nvidia10", "nvidia2", "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia", "null", "xnvidia1"]
        {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(gpus_in(dir.path()), [0, 2, 10]);
    }

    #[test]
    fn a_machine_without_a_device_directory_has_none() {
        assert_eq!(gpus_in(Path::new("/nonexistent/dev")), Vec::<u32>::new());
    }
}
