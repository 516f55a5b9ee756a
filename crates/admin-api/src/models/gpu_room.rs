//! What a start of a model can have of the machine's GPUs.

use gantry_domain::{
    machine::GpuVendor,
    memory::{GpuMemory, Unknown},
    model::Model,
};

use crate::{App, ports::MachineView};

/// Counts as free what the model's own engine holds of the GPUs: it ends before the next start begins. Returns whether
/// anything was found; drivers do not report every process.
pub(super) async fn give_back(app: &App, model: &Model, machine: &mut MachineView) -> bool {
    let Some(own) = model.phase.instance() else { return false };
    let pids = machine.gpus.iter().flat_map(|it| &it.processes).map(|it| it.pid).collect();
    let owners = app.monitor.containers(pids).await;
    let mut found = false;
    for gpu in &mut machine.gpus {
        let own_processes = gpu.processes.iter().filter(|it| owners.get(&it.pid) == Some(&own.0));
        let held = own_processes.fold(0, |sum: u64, it| sum.saturating_add(it.bytes));
        found |= held > 0;
        if let Some(memory) = &mut gpu.memory {
            memory.free = memory.free.saturating_add(held).min(memory.total);
        }
    }
    found
}

/// Memory of the GPUs with these indexes.
pub(super) fn gpus(machine: &MachineView, indexes: &[u32]) -> Result<Vec<GpuMemory>, Unknown> {
    let memory = |index: &u32| {
        let gpu = machine.gpus.iter().find(|it| it.index == *index && it.vendor == GpuVendor::Nvidia);
        gpu.and_then(|it| it.memory)
            .ok_or_else(|| Unknown::because(format!("the driver does not tell the memory of GPU {index}")))
    };
    indexes.iter().map(memory).collect()
}
