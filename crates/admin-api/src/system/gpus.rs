//! `/admin/system/gpus`: the GPUs that engines run on.

use std::collections::HashMap;

use axum::{Json, extract::State};
use gantry_domain::{
    ModelId,
    machine::{Gpu, GpuProcess, GpuVendor},
    schema::{flag, formatted, nullable},
    view,
};

use crate::{App, error::Outcome, operation::Operation};

view! {
    /// A GPU as the API shows it. `GPU_INVENTORY_FILE` takes this form, too.
    #[derive(Debug)]
    pub(crate) struct GpuView {
        index: u32,
        name: String,
        mem_total_mb: Option<u64>,
        mem_used_mb: Option<u64>,
        /// CUDA's compute capability, as in `8.9`.
        compute_capability: Option<String> as nullable(formatted("version")),
        /// The name of the generation.
        architecture: Option<&'static str>,
        /// Flash Attention 2 runs on it.
        flash_attention_supported: bool as nullable(flag()),
        vendor: GpuVendor,
        /// The share of time in which it computed, 0 to 100.
        util_pct: Option<u32>,
        temperature_c: Option<u32>,
        power_w: Option<f64>,
        /// The processes that hold memory on it, as far as the driver reports them.
        processes: Vec<ProcessView>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct ProcessView {
        pid: u32,
        mem_mb: u64,
        /// The model whose engine the process belongs to.
        model_id: Option<ModelId>,
        served_name: Option<String>,
    }
}

impl GpuView {
    fn new(gpu: &Gpu, owners: &HashMap<u32, (ModelId, String)>) -> Self {
        let mib = |bytes: u64| bytes >> 20;
        let process = |it: &GpuProcess| {
            let owner = owners.get(&it.pid);
            ProcessView {
                pid: it.pid,
                mem_mb: mib(it.bytes),
                model_id: owner.map(|it| it.0),
                served_name: owner.map(|it| it.1.clone()),
            }
        };
        Self {
            index: gpu.index,
            name: gpu.name.clone(),
            mem_total_mb: gpu.memory.map(|it| mib(it.total)),
            mem_used_mb: gpu.memory.map(|it| mib(it.total.saturating_sub(it.free))),
            compute_capability: gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
            architecture: gpu.architecture(),
            flash_attention_supported: gpu.flash_attention(),
            vendor: gpu.vendor,
            util_pct: gpu.load.util_pct,
            temperature_c: gpu.load.temperature_c,
            power_w: gpu.load.power_w,
            processes: gpu.processes.iter().map(process).collect(),
        }
    }
}

pub(crate) const GPUS: Operation = Operation::new("listGpus", "GPUs of the machine").about(
    "Sizes are MiB. A process of a model's engine has the model's `model_id` and `served_name`. What a driver does not \
     report is `null`. Without GPUs the list is empty.",
);

pub(crate) async fn gpus(app: State<App>) -> Outcome<Json<Vec<GpuView>>> {
    let gpus = app.monitor.machine().await.gpus;
    let pids: Vec<u32> = gpus.iter().flat_map(|it| &it.processes).map(|it| it.pid).collect();
    let owners = if pids.is_empty() { HashMap::new() } else { owners(&app, pids).await? };
    Ok(Json(gpus.iter().map(|it| GpuView::new(it, &owners)).collect()))
}

/// Returns, by process id, the model whose engine the process belongs to.
async fn owners(app: &App, pids: Vec<u32>) -> Outcome<HashMap<u32, (ModelId, String)>> {
    let containers = app.monitor.containers(pids).await;
    let models = app.store.read().await?.models(false).await?;
    let owner = |id: &str| {
        let model = models.iter().find(|it| it.phase.instance().is_some_and(|it| it.0 == id))?;
        Some((model.id, model.served_name.clone()))
    };
    Ok(containers.into_iter().filter_map(|(pid, id)| Some((pid, owner(&id)?))).collect())
}
