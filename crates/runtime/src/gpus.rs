//! Which GPUs this machine has, from its device nodes and what the kernel's drivers tell: no driver library is linked,
//! none has to be installed.

use std::path::Path;

/// Indexes of the machine's NVIDIA GPUs in ascending order; empty on a machine without.
pub fn host_gpus() -> Vec<u32> {
    gpus_in(Path::new("/dev"))
}

/// Indexes of the GPUs that an engine can be given which is a process of this machine: those of NVIDIA, else those of AMD.
/// Containers are given NVIDIA's only.
pub fn process_gpus() -> Vec<u32> {
    let nvidia = host_gpus();
    if nvidia.is_empty() { amd_gpus_in(Path::new("/sys/class/kfd/kfd/topology/nodes")) } else { nvidia }
}

/// AMD's driver lists every CPU and GPU as a node; that of a CPU has the `gpu_id` 0. GPUs are numbered in this order.
fn amd_gpus_in(nodes: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(nodes) else { return Vec::new() };
    let ids = entries.flatten().filter_map(|it| std::fs::read_to_string(it.path().join("gpu_id")).ok());
    (0..).zip(ids.filter(|it| it.trim() != "0")).map(|(index, _)| index).collect()
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
    fn of_amds_nodes_only_gpus_count() {
        let dir = tempfile::tempdir().unwrap();
        for (node, id) in [("0", "0\n"), ("1", "51034\n"), ("2", "17\n")] {
            std::fs::create_dir(dir.path().join(node)).unwrap();
            std::fs::write(dir.path().join(node).join("gpu_id"), id).unwrap();
        }
        assert_eq!(amd_gpus_in(dir.path()), [0, 1]);
        assert_eq!(amd_gpus_in(Path::new("/nonexistent/nodes")), Vec::<u32>::new());
    }

    #[test]
    fn a_machine_without_a_device_directory_has_none() {
        assert_eq!(gpus_in(Path::new("/nonexistent/dev")), Vec::<u32>::new());
    }
}
