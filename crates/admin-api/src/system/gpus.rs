//! `/admin/system/gpus`: the GPUs that engines run on.

use axum::{Json, extract::State};
use gantry_domain::machine::Gpu;
use serde_json::{Value, json};

use crate::{App, error::Outcome, extract::Params};

/// GPUs of the machine
///
/// Sizes are MiB. What a driver does not tell is `null`. Without GPUs the list is empty.
pub(crate) async fn gpus(app: State<App>, params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    Ok(Json(app.engines.machine().await.gpus.iter().map(view).collect()))
}

/// Also what `GPU_INVENTORY_FILE` takes.
fn view(gpu: &Gpu) -> Value {
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
        "processes": gpu
            .processes
            .iter()
            .map(|it| json!({ "pid": it.pid, "mem_mb": mib(it.bytes) }))
            .collect::<Vec<_>>(),
    })
}
