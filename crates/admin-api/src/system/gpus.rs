//! `/admin/system/gpus`: the GPUs that engines run on.

use std::collections::HashMap;

use axum::{Json, extract::State};
use gantry_domain::{ModelId, machine::Gpu};
use serde_json::{Value, json};

use crate::{App, error::Outcome, operation::Params};

/// GPUs of the machine
///
/// Sizes are MiB. A process of a model's engine has its `model_id` and `served_name`. What a driver does
/// not tell is `null`. Without GPUs the list is empty.
pub(crate) async fn gpus(app: State<App>, params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    let gpus = app.engines.machine().await.gpus;
    let pids: Vec<u32> = gpus.iter().flat_map(|it| &it.processes).map(|it| it.pid).collect();
    let owners = if pids.is_empty() { HashMap::new() } else { owners(&app, pids).await? };
    Ok(Json(gpus.iter().map(|it| view(it, &owners)).collect()))
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

/// Returns a GPU as the API shows it. `GPU_INVENTORY_FILE` takes this form, too.
fn view(gpu: &Gpu, owners: &HashMap<u32, (ModelId, String)>) -> Value {
    let mib = |bytes: u64| bytes >> 20;
    json!({
        "index": gpu.index,
        "name": gpu.name,
        "mem_total_mb": gpu.memory.map(|it| mib(it.total)),
        "mem_used_mb": gpu.memory.map(|it| mib(it.total.saturating_sub(it.free))),
        "compute_capability": gpu.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
        "architecture": gpu.architecture(),
        "flash_attention_supported": gpu.flash_attention(),
        "vendor": gpu.vendor,
        "util_pct": gpu.load.util_pct,
        "temperature_c": gpu.load.temperature_c,
        "power_w": gpu.load.power_w,
        "processes": gpu
            .processes
            .iter()
            .map(|it| {
                let owner = owners.get(&it.pid);
                json!({
                    "pid": it.pid, "mem_mb": mib(it.bytes),
                    "model_id": owner.map(|it| it.0), "served_name": owner.map(|it| &it.1),
                })
            })
            .collect::<Vec<_>>(),
    })
}
