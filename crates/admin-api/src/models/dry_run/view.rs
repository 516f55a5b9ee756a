//! What a dry run answers: the command, what is wrong with it, and how much memory it takes.

use std::collections::BTreeMap;

pub(crate) use gantry_domain::diagnosis::Severity;
use gantry_domain::{
    schema::{map, text},
    view,
};
use serde_json::{Map, Value, json};

view! {
    /// What a start would run.
    #[derive(Debug)]
    pub(crate) struct DryRun: "DryRun" {
        /// The served name that the record has or would get.
        pub(super) served_name: String,
        pub(super) command: Vec<String>,
        /// The options of `command` that only the gateway sets: where the engine listens, what it serves under which name.
        pub(super) gateway_options: Vec<String>,
        /// The command as a line for a shell.
        pub(super) command_str: String,
        /// No warning is an error: a start would not fail for a reason that is known.
        pub(super) valid: bool,
        /// Environment variables. Values that may be secrets are shown as `***`.
        pub(super) env: Map<String, Value> as map(text()),
        pub(super) image: String,
        /// Whether the image is on the machine; `null` if the container runtime does not answer.
        pub(super) image_cached: Option<bool>,
        pub(super) engine_version: String,
        pub(super) simulator: bool,
        /// GiB where the model computes, on its GPUs or in RAM; `null` rather than a guess.
        pub(super) vram_estimate_gb: Option<f64>,
        /// Sizes are GiB; see docs/memory-estimate.md.
        pub(super) vram_estimate: Option<MemoryEstimate>,
        pub(super) warnings: Vec<Warning>,
    }
}

view! {
    /// The memory that the model takes.
    #[derive(Debug)]
    pub(crate) struct MemoryEstimate: "MemoryEstimate" {
        pub(crate) weights_gb: f64,
        pub(crate) kv_cache_gb: f64,
        pub(crate) overhead_gb: f64,
        pub(crate) total_gb: f64,
        pub(crate) per_gpu_gb: Vec<f64>,
        /// What each entry of `per_gpu_gb` is for.
        pub(crate) gpu_parts: Vec<GpuParts>,
        pub(crate) fits: Option<bool>,
        pub(crate) available_gb: Option<f64>,
        pub(crate) gpu_indexes: Vec<u32>,
        pub(crate) compute_gb: f64,
        pub(crate) weights_by_type_gb: BTreeMap<String, f64>,
        pub(crate) host_ram_gb: f64,
        pub(crate) host_ram_available_gb: Option<f64>,
        /// Tokens.
        pub(crate) max_context_that_fits: Option<u64>,
        /// Tokens of context that the model was trained for; `null` if its files don't say so.
        pub(crate) trained_for: Option<u64>,
        /// Where the engine chooses and not all of them fit; the others stay in RAM.
        pub(crate) layers_on_gpus: Option<u64>,
        pub(crate) notes: Vec<String>,
    }
}

view! {
    /// The memory that one GPU has to provide. Overhead has the same meaning as for the whole model.
    #[derive(Debug)]
    #[expect(clippy::struct_field_names, reason = "the unit belongs to the name")]
    pub(crate) struct GpuParts: "GpuParts" {
        pub(crate) weights_gb: f64,
        pub(crate) kv_cache_gb: f64,
        pub(crate) overhead_gb: f64,
    }
}

view! {
    /// A finding of a dry run. With the severity `error`, a start would fail.
    #[derive(Debug, Clone)]
    pub(crate) struct Warning {
        pub(crate) severity: Severity,
        pub(crate) category: &'static str,
        pub(crate) title: String,
        pub(crate) message: String,
        pub(crate) fix: Option<String>,
        pub(crate) field: Option<&'static str>,
        /// Values that were tried and solve the problem, in the form that a change request takes.
        pub(crate) set: Option<Map<String, Value>> as json!({ "type": ["object", "null"] }),
    }
}

impl Warning {
    /// Makes a warning whose title is to be filled in.
    pub(crate) fn new(severity: Severity, category: &'static str, message: String) -> Self {
        Self { severity, category, title: String::new(), message, fix: None, field: None, set: None }
    }

    pub(crate) fn about(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    pub(crate) fn with_fix(self, fix: Option<String>) -> Self {
        Self { fix, ..self }
    }
}
