//! The memory estimate of a dry run: the model's files, the command that a start would run and what the machine has,
//! put together. Arithmetic: `gantry_domain::memory`; what the numbers mean: `docs/memory-estimate.md`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use gantry_domain::{
    ApiError,
    engine::vllm::CPU_CACHE,
    memory::{
        Beside, Command, Doubt, Estimate, GpuMemory, GpuShare, ModelFacts, Number, Refusal, Remedy, Room,
        Unknown, remedy,
    },
    model::{EngineKind, Model, ModelConfig, Phase},
};
use gantry_inspect::folder::{Base, Measured, Precision, cached_gguf, cached_snapshot, measure, weight_of};
use serde_json::{Map, Value};

use super::{
    dry_run::{GpuParts, MemoryEstimate, Severity, Warning},
    gpu_room::{give_back, gpus},
};
use crate::{App, error::Outcome, ports::Preview};

/// The parts of the estimate that go into the dry run's answer.
pub(super) struct Report {
    /// `vram_estimate`; `None` when unknown.
    pub(super) estimate: Option<MemoryEstimate>,
    /// `vram_estimate_gb`: what is needed where the model computes, on its GPUs or in RAM.
    pub(super) gb: Option<f64>,
    pub(super) warnings: Vec<Warning>,
}

/// Estimates the memory of `model` as `preview` would start it.
pub(super) async fn report(app: &App, model: &Model, preview: &Preview) -> Outcome<Report> {
    let subject = match Subject::of(app, model, preview).await? {
        Ok(subject) => Arc::new(subject),
        Err(unknown) => return Ok(not_known(model, &unknown)),
    };
    let mut warnings = subject.refusals();
    let asked = Arc::clone(&subject);
    let (estimate, remedy) = match compute(move || asked.estimate()).await? {
        Ok(known) => known,
        Err(unknown) => {
            let report = not_known(model, &unknown);
            warnings.extend(report.warnings);
            return Ok(Report { warnings, ..report });
        }
    };
    if estimate.fits == Some(false) {
        let mut warning = subject.does_not_fit(model, &estimate);
        if let Some(remedy) = remedy {
            let helps = subject.helps(app, model, &remedy).await?;
            advise(&mut warning, &remedy, helps, overriding(model));
        }
        warnings.push(warning);
    } else if subject.indexes.is_empty() {
        warnings.push(in_ram(model, &estimate));
    }
    warnings.extend(estimate.layers_on_gpus.map(|it| partly_in_ram(it, &subject.facts)));
    let on_gpus = estimate.total.saturating_sub(estimate.host_ram);
    let gb = gib(if subject.indexes.is_empty() { estimate.total } else { on_gpus });
    Ok(Report { estimate: Some(subject.view(model, &estimate)), gb: Some(gb), warnings })
}

/// Runs `work` off the async runtime, because an estimate tries many lengths.
async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::internal())?)
}

/// Reads what the engine is given by arguments and by its environment.
fn read(model: &Model, preview: &Preview) -> Result<Command, Unknown> {
    Command::parse(model.engine, preview.version, &preview.command)?.with_env(&preview.env)
}

/// Everything that the estimate depends on.
struct Subject {
    command: Command,
    facts: ModelFacts,
    /// Bytes in the files, by type.
    by_type: BTreeMap<String, u64>,
    /// Indexes of the GPUs that the engine is given.
    indexes: Vec<u32>,
    gpus: Vec<GpuMemory>,
    /// Why the memory of its GPUs is not known.
    no_gpus: Option<Unknown>,
    host_ram_free: Option<u64>,
    host_ram_total: Option<u64>,
    /// What the model's own engine holds of the GPUs counts as free: the next start has it.
    frees_own: bool,
    left_out: Vec<(Doubt, &'static str)>,
}

impl Subject {
    async fn of(app: &App, model: &Model, preview: &Preview) -> Outcome<Result<Self, Unknown>> {
        if preview.simulator {
            return Ok(Err(Unknown::because("the image is the simulator, which loads no model")));
        }
        let command = match read(model, preview) {
            Ok(command) => command,
            Err(unknown) => return Ok(Err(unknown)),
        };
        let precision = match &command {
            Command::Vllm(it) if it.single => Precision::Single,
            _ => Precision::Half,
        };
        let (place, engine) = (Place::of(app, &model.config), model.engine);
        let (models_dir, paths) = (app.files.models_dir.get(), model.config.paths());
        let measure = move || {
            let mut measured = place.measure(engine, precision)?;
            if engine == EngineKind::Llamacpp {
                measured.facts.beside = beside(&models_dir, &paths);
            }
            Ok(measured)
        };
        let measured = match app.files.disk.look(measure).await? {
            Ok(measured) => measured,
            Err(unknown) => return Ok(Err(unknown)),
        };
        let mut machine = app.monitor.machine().await;
        let frees_own = give_back(app, model, &mut machine).await;
        let (gpus, no_gpus) = match gpus(&machine, &preview.gpus) {
            Ok(gpus) => (gpus, None),
            Err(unknown) => (Vec::new(), Some(unknown)),
        };
        Ok(Ok(Self {
            left_out: left_out(model, &command, &measured.facts),
            command,
            facts: measured.facts,
            by_type: measured.by_type,
            indexes: preview.gpus.clone(),
            gpus,
            no_gpus,
            host_ram_free: machine.memory.map(|it| it.available),
            host_ram_total: machine.memory.map(|it| it.total),
            frees_own,
        }))
    }

    fn room(&self) -> Room<'_> {
        Room { gpus: &self.gpus, host_ram_free: self.host_ram_free, host_ram_total: self.host_ram_total }
    }

    /// Returns warnings about settings with which the engine ends at once.
    fn refusals(&self) -> Vec<Warning> {
        let entry = |it: Refusal| {
            let title = "The engine will not start".to_owned();
            let fix = Some(format!("set `{}` to f16", it.field));
            Warning { title, ..Warning::new(Severity::Error, "engine", it.message) }
                .about(it.field)
                .with_fix(fix)
        };
        self.command.refusals(&self.facts).into_iter().map(entry).collect()
    }

    /// Returns the estimate, and what to change if the model does not fit.
    fn estimate(&self) -> Result<(Estimate, Option<Remedy>), Unknown> {
        if let Some(unknown) = &self.no_gpus {
            return Err(unknown.clone());
        }
        let mut estimate = self.command.estimate(&self.facts, self.room())?;
        for (doubt, what) in &self.left_out {
            estimate.leave_out(*doubt, what);
        }
        let remedy = (estimate.fits == Some(false))
            .then(|| remedy(&self.command, &self.facts, self.room(), &estimate))
            .flatten();
        Ok((estimate, remedy))
    }

    /// Returns whether the model fits once the fields of `remedy` are set, judged by the command that a start would run
    /// then.
    async fn helps(self: &Arc<Self>, app: &App, model: &Model, remedy: &Remedy) -> Outcome<bool> {
        let mut values = model.config.values().clone();
        values.extend(patch(remedy));
        let changed = Model { config: ModelConfig::from_stored(values), ..model.clone() };
        let preview = app.engines.preview(&changed).await;
        let Ok(command) = read(model, &preview) else { return Ok(false) };
        let subject = Arc::clone(self);
        let estimate = compute(move || command.estimate(&subject.facts, subject.room())).await?;
        Ok(estimate.is_ok_and(|it| it.fits == Some(true)))
    }

    fn does_not_fit(&self, model: &Model, estimate: &Estimate) -> Warning {
        Warning {
            severity: Severity::Warning,
            category: "vram",
            title: "It does not fit".to_owned(),
            message: self.lacks(estimate),
            fix: Some("free memory, or take a model or quantisation that is smaller".to_owned()),
            field: Some(source_field(model)),
            set: None,
        }
    }

    /// Returns a sentence that says where memory is missing.
    fn lacks(&self, estimate: &Estimate) -> String {
        let mut parts: Vec<String> = self
            .indexes
            .iter()
            .zip(estimate.per_gpu.iter().zip(&self.gpus))
            .filter(|(_, (share, gpu))| share.total() > gpu.free)
            .map(|(index, (share, gpu))| needs(&format!("GPU {index}"), share.total(), gpu.free))
            .collect();
        if let Some(free) = self.host_ram_free.filter(|it| estimate.host_ram > *it) {
            parts.push(needs("RAM", estimate.host_ram, free));
        }
        if parts.is_empty() {
            // vLLM: the weights leave too little of its share for one request.
            let what = if self.indexes.is_empty() {
                "the cache that the engine reserves"
            } else {
                "the engine's share of the GPUs"
            };
            parts.push(match self.command.context().or(self.facts.context_train) {
                Some(tokens) => format!("{what} does not hold a request of {tokens} tokens"),
                None => format!("{what} is too small"),
            });
        }
        parts.join("; ")
    }

    /// Returns `vram_estimate`.
    fn view(&self, model: &Model, estimate: &Estimate) -> MemoryEstimate {
        let mut notes = estimate.notes.clone();
        if !self.frees_own && matches!(model.phase, Phase::Running { .. } | Phase::Loading { .. }) {
            notes.push("the model runs now: what it holds counts as used".to_owned());
        }
        MemoryEstimate {
            weights_gb: gib(estimate.weights),
            kv_cache_gb: gib(estimate.kv_cache),
            overhead_gb: gib(estimate.compute.saturating_add(estimate.overhead)),
            total_gb: gib(estimate.total),
            per_gpu_gb: estimate.per_gpu.iter().map(|it| gib(it.total())).collect(),
            gpu_parts: estimate.per_gpu.iter().map(parts).collect(),
            fits: estimate.fits,
            available_gb: estimate.available.map(gib),
            gpu_indexes: self.indexes.clone(),
            compute_gb: gib(estimate.compute),
            weights_by_type_gb: self
                .by_type
                .iter()
                .map(|(name, bytes)| (name.clone(), gib(*bytes)))
                .collect(),
            host_ram_gb: gib(estimate.host_ram),
            host_ram_available_gb: self.host_ram_free.map(gib),
            max_context_that_fits: estimate.max_context_that_fits,
            trained_for: self.facts.context_train,
            layers_on_gpus: estimate.layers_on_gpus,
            notes,
        }
    }
}

/// Returns what one GPU has to provide, by what it is for.
fn parts(share: &GpuShare) -> GpuParts {
    GpuParts {
        weights_gb: gib(share.weights),
        kv_cache_gb: gib(share.kv_cache),
        overhead_gb: gib(share.compute.saturating_add(share.overhead)),
    }
}

/// Where the files of a model are.
enum Place {
    Below {
        base: PathBuf,
        path: String,
    },
    /// In the hub cache, if the engine fetched it before.
    Hub {
        cache: PathBuf,
        repo: String,
    },
    Nowhere,
}

impl Place {
    fn of(app: &App, config: &ModelConfig) -> Self {
        match (config.is_online(), config.text("repo_id"), config.text("local_path")) {
            (true, Some(repo), _) => {
                Self::Hub { cache: app.files.hub_cache_dir.clone(), repo: repo.to_owned() }
            }
            (_, _, Some(path)) => {
                Self::Below { base: app.files.models_dir.get().to_path_buf(), path: path.to_owned() }
            }
            _ => Self::Nowhere,
        }
    }

    /// Measures the files. This call blocks.
    fn measure(self, engine: EngineKind, precision: Precision) -> Result<Measured, Unknown> {
        let (root, path) = match self {
            Self::Nowhere => return Err(Unknown::because("there is no `local_path` and no `repo_id`")),
            Self::Below { base, path } => (base, path),
            Self::Hub { cache, repo } => {
                let path = match engine {
                    EngineKind::Vllm => cached_snapshot(&cache, &repo)?,
                    EngineKind::Llamacpp => cached_gguf(&cache, &repo)?,
                };
                (cache, path)
            }
        };
        let base = Base::open(&root).map_err(|error| Unknown::because(error.to_string()))?;
        measure(&base, &path, precision)
    }
}

/// Returns the weights of the files beside the model. Files that can't be read are left out, and the estimate says so.
/// This call blocks.
fn beside(models_dir: &Path, paths: &[(&'static str, String)]) -> Beside {
    let Ok(base) = Base::open(models_dir) else { return Beside::default() };
    let weigh = |field: &str| {
        let mut named = paths.iter().filter(|it| it.0 == field);
        let sum = named.try_fold(0_u64, |sum, it| Some(sum.saturating_add(weight_of(&base, &it.1)?)));
        sum.unwrap_or(0)
    };
    Beside { projector: weigh("mmproj"), adapters: weigh("lora_adapters"), draft: weigh("draft_model_path") }
}

/// Returns doubts about what the command does not show.
fn left_out(model: &Model, command: &Command, facts: &ModelFacts) -> Vec<(Doubt, &'static str)> {
    let extra = model.config.get("extra_env").and_then(Value::as_object);
    let has = |start: &str| extra.is_some_and(|it| it.keys().any(|name| name.starts_with(start)));
    let mut left_out = Vec::new();
    match command {
        Command::Llamacpp(_) if has("LLAMA_ARG_") => {
            left_out.push((Doubt::Either, "not counted: settings by `LLAMA_ARG_…` variables"));
        }
        Command::Vllm(_) if has("VLLM_MLA_DISABLE") && facts.layers.iter().any(|it| it.latent.is_some()) => {
            left_out.push((Doubt::More, "not counted: the heads that `VLLM_MLA_DISABLE` has cached"));
        }
        _ => {}
    }
    left_out
}

fn not_known(model: &Model, unknown: &Unknown) -> Report {
    let warning = Warning {
        severity: Severity::Info,
        category: "vram",
        title: "Memory need unknown".to_owned(),
        message: unknown.reason.clone(),
        fix: None,
        field: Some(source_field(model)),
        set: None,
    };
    Report { estimate: None, gb: None, warnings: vec![warning] }
}

fn in_ram(model: &Model, estimate: &Estimate) -> Warning {
    let free = estimate.available.map_or_else(|| "unknown".to_owned(), size);
    Warning {
        severity: Severity::Info,
        category: "vram",
        title: "It will run in RAM".to_owned(),
        message: format!(
            "it is given no GPU: it takes about {} of RAM, of which {free} is available",
            size(estimate.total)
        ),
        fix: None,
        field: (model.config.text("device") == Some("cpu")).then_some("device"),
        set: None,
    }
}

/// Warns that the engine leaves in RAM what does not fit.
fn partly_in_ram(layers: u64, facts: &ModelFacts) -> Warning {
    let all = facts.layers.len();
    let message = format!(
        "about {layers} of {all} layers fit on the GPUs: the engine leaves the others in RAM, where they are many times \
         slower (`fit_memory`)"
    );
    let warning = Warning {
        title: "Part of it will run in RAM".to_owned(),
        ..Warning::new(Severity::Warning, "vram", message)
    };
    let fix = "use a shorter context, a smaller quantisation, or free memory of the GPUs".to_owned();
    warning.about("fit_memory").with_fix(Some(fix))
}

/// Returns the field that has the operator's own variables or arguments, which count more than other fields.
fn overriding(model: &Model) -> &'static str {
    let variables = model.config.get("extra_env").and_then(Value::as_object);
    if variables.is_some_and(|it| it.contains_key(CPU_CACHE)) { "extra_env" } else { "extra_args" }
}

/// Adds the remedy to the warning. `helps` says whether it helped when it was tried on the command that would run;
/// `overriding` is the field that has the last word.
fn advise(warning: &mut Warning, remedy: &Remedy, helps: bool, overriding: &'static str) {
    let said: Vec<String> = remedy.0.iter().map(|(field, value)| format!("`{field}` to {value}")).collect();
    let said = format!("set {}", said.join(" and "));
    if !helps {
        warning.field = Some(overriding);
        warning.fix = Some(format!("{said}, and take out of `{overriding}` what overrides it"));
        return;
    }
    let length = remedy.0.iter().find_map(|(field, value)| match value {
        Number::Whole(tokens) if matches!(*field, "context_size" | "max_model_len") => Some(tokens),
        _ => None,
    });
    warning.field = remedy.0.first().map(|it| it.0);
    warning.set = Some(patch(remedy));
    warning.fix = Some(match length {
        Some(tokens) => format!("it fits up to {tokens} tokens of context: {said}"),
        None => said,
    });
}

fn patch(remedy: &Remedy) -> Map<String, Value> {
    let value = |value: Number| match value {
        Number::Whole(it) => Value::from(it),
        Number::Fraction(it) => Value::from(it),
    };
    remedy.0.iter().map(|(field, it)| ((*field).to_owned(), value(*it))).collect()
}

fn source_field(model: &Model) -> &'static str {
    if model.config.is_online() { "repo_id" } else { "local_path" }
}

fn needs(what: &str, bytes: u64, free: u64) -> String {
    format!("{what} would hold {} and has {} free", size(bytes), size(free))
}

/// Returns a size as people read it.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x4000_0000 => format!("{} MiB", bytes.div_ceil(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64),
    }
}

/// Converts bytes to GiB, to the KiB.
fn gib(bytes: u64) -> f64 {
    let gib = bytes as f64 / (1_u64 << 30) as f64;
    (gib * 1e6).round() / 1e6
}
