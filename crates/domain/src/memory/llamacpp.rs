//! The estimate for llama-server.

use super::{
    Beside, CacheType, Estimate, GpuMemory, GpuShare, MIB, ModelFacts, Unknown,
    graph::{Batch, compute_bytes},
    kv::{Cells, cells, layer_bytes},
    largest, pad,
    placement::place,
    product, sum,
};

/// Driver context, libraries and kernels of one GPU. llama-server does not report them; the value is 300 to 600 MiB in
/// the literature and was not measured here.
const GPU_OVERHEAD: u64 = 500 * MIB;
/// What `--fit` leaves free on each GPU: default of `--fit-target` (llama.cpp #16653).
const FIT_TARGET: u64 = 1024 * MIB;

/// How many requests run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slots {
    /// `-np` is not given: 4 slots that share one cache (llama.cpp `tools/server/server.cpp`, builds of 2026).
    #[default]
    Auto,
    /// `-np` is given.
    Fixed {
        /// Number of requests.
        slots: u64,
        /// `--kv-unified`: each request may use the whole context.
        unified: bool,
    },
}

/// `-sm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SplitMode {
    /// Everything is on the first GPU.
    None,
    /// Whole layers (`--split-mode layer`).
    #[default]
    Layer,
    /// Weights are split row by row; cache and computation are on the first GPU.
    Row,
}

/// Where a part of the model lies on a machine with GPUs. On a machine without any, everything lies in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// On GPUs.
    #[default]
    Gpu,
    /// In memory of the host.
    Ram,
}

/// The settings that the command line makes.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamacppSettings<'a> {
    /// `-c`, in tokens over all slots. `None` or 0: what the model was trained for.
    pub context: Option<u64>,
    pub slots: Slots,
    /// `-b`, in tokens; 2048 unless given.
    pub batch: u64,
    /// `-ub`, in tokens; 512 unless given.
    pub ubatch: u64,
    pub cache_type_k: CacheType,
    pub cache_type_v: CacheType,
    /// `-fa`; `None` is `auto`, which switches it on where it works.
    pub flash_attn: Option<bool>,
    /// `-ngl`; `None` is `auto` or `all`.
    pub ngl: Option<u64>,
    /// The engine keeps as many layers on the GPUs as fit (`--fit`). It does so only if no argument says where they go.
    pub fit: bool,
    /// How many layers, from the first, keep their experts in RAM.
    pub n_cpu_moe: u64,
    /// Proportions of the split; empty: in proportion to free memory.
    pub tensor_split: &'a [f64],
    pub split_mode: SplitMode,
    /// Files are mapped rather than read (load mode `auto` or `mmap`).
    pub mmap: bool,
    /// Builds before #23861 (2026-05-30) reserve logits for every token of a batch.
    pub logits_for_all: bool,
    /// GPUs that the engine is given; empty: none.
    pub gpus: &'a [GpuMemory],
    /// Free RAM in bytes; `None`: unknown.
    pub host_ram_free: Option<u64>,
    /// `--no-mmproj-offload`.
    pub projector: Side,
    /// `--spec-draft-ngl 0`.
    pub draft: Side,
}

impl Default for LlamacppSettings<'_> {
    fn default() -> Self {
        Self {
            context: None,
            slots: Slots::Auto,
            batch: 2048,
            ubatch: 512,
            cache_type_k: CacheType::F16,
            cache_type_v: CacheType::F16,
            flash_attn: None,
            ngl: None,
            fit: false,
            n_cpu_moe: 0,
            tensor_split: &[],
            split_mode: SplitMode::Layer,
            mmap: true,
            logits_for_all: false,
            gpus: &[],
            host_ram_free: None,
            projector: Side::Gpu,
            draft: Side::Gpu,
        }
    }
}

/// Estimates what llama-server will allocate. See `docs/memory-estimate.md`.
///
/// # Errors
/// Names the fact that is missing.
pub fn estimate_llamacpp(facts: &ModelFacts, settings: &LlamacppSettings<'_>) -> Result<Estimate, Unknown> {
    let context =
        settings.context.filter(|it| *it > 0).or(facts.context_train).ok_or_else(|| {
            Unknown::because("neither the context nor what the model was trained for is known")
        })?;
    let plan = Plan::new(facts, settings);
    let at = |context| if settings.fit { fitted(facts, settings, &plan, context) } else { plan.at(context) };
    let mut estimate = at(context);
    if let Some(longest) = facts.context_train
        && estimate.fits.is_some()
        && !facts.encoder
    {
        let streams = if plan.unified { 1 } else { plan.slots };
        let step = streams.saturating_mul(256);
        let most = pad(longest, 256).saturating_mul(streams);
        let found = largest(step, most, |it| at(it).fits == Some(true));
        estimate.max_context_that_fits = Some(found.min(longest.saturating_mul(streams)));
    }
    estimate.notes = notes(facts, context);
    Ok(estimate)
}

/// Estimates with as many layers on the GPUs as the engine itself will put there. `all` is the plan with every layer on
/// a GPU.
fn fitted(facts: &ModelFacts, settings: &LlamacppSettings<'_>, all: &Plan<'_>, context: u64) -> Estimate {
    let has_room = |estimate: &Estimate| {
        let mut gpus = estimate.per_gpu.iter().zip(settings.gpus);
        gpus.all(|(share, gpu)| share.total() == 0 || share.total().saturating_add(FIT_TARGET) <= gpu.free)
    };
    let whole = all.at(context);
    if settings.gpus.is_empty() || has_room(&whole) {
        return whole;
    }
    let with = |layers: u64| {
        let settings = LlamacppSettings { ngl: Some(layers), ..settings.clone() };
        Plan::new(facts, &settings).at(context)
    };
    let layers = largest(1, facts.layers.len() as u64, |it| has_room(&with(it)));
    Estimate { layers_on_gpus: Some(layers), ..with(layers) }
}

struct Plan<'a> {
    facts: &'a ModelFacts,
    settings: &'a LlamacppSettings<'a>,
    slots: u64,
    unified: bool,
    places: Vec<Option<usize>>,
}

impl<'a> Plan<'a> {
    fn new(facts: &'a ModelFacts, settings: &'a LlamacppSettings<'a>) -> Self {
        let (slots, unified) = match settings.slots {
            Slots::Auto => (4, true),
            Slots::Fixed { slots, unified } => (slots.max(1), unified),
        };
        let ngl = settings.ngl.unwrap_or(u64::MAX);
        let gpus = match settings.split_mode {
            SplitMode::None => settings.gpus.get(..1).unwrap_or_default(),
            SplitMode::Layer | SplitMode::Row => settings.gpus,
        };
        let places = place(facts.layers.len(), ngl, settings.tensor_split, gpus);
        Self { facts, settings, slots, unified, places }
    }

    fn at(&self, context: u64) -> Estimate {
        let (facts, settings) = (self.facts, self.settings);
        let tokens = settings.ubatch.max(1).min(settings.batch.max(1)).min(pad(context, 256));
        let cells = cells(facts, context, self.slots, self.unified, tokens);
        let mut gpus = vec![GpuShare::default(); settings.gpus.len()];
        let mut host = self.weights(&mut gpus);
        self.cache(&cells, &mut gpus, &mut host);
        self.compute(tokens, cells, &mut gpus, &mut host);
        self.beside(&mut gpus, &mut host);
        for gpu in &mut gpus {
            if gpu.total() > 0 {
                gpu.overhead = GPU_OVERHEAD;
            }
        }
        self.finish(gpus, host)
    }

    /// Adds the weights to their GPUs, and returns those that stay in RAM.
    fn weights(&self, gpus: &mut [GpuShare]) -> GpuShare {
        let facts = self.facts;
        let mut host = GpuShare { weights: facts.input_bytes, ..GpuShare::default() };
        // With mapped files, the mapped pages stay in RAM beside the converted copy.
        let copied = |bytes: u64| if self.settings.mmap { bytes } else { 0 };
        for (index, (layer, place)) in facts.layers.iter().zip(&self.places).enumerate() {
            if let Some(gpu) = place.and_then(|it| gpus.get_mut(it)) {
                let left = if (index as u64) < self.settings.n_cpu_moe { layer.expert_bytes } else { 0 };
                gpu.weights = sum([gpu.weights, layer.bytes.saturating_sub(left)]);
                host.weights = host.weights.saturating_add(left);
            } else {
                host.weights = sum([host.weights, layer.bytes, copied(layer.repack_bytes)]);
            }
        }
        let outer = facts.output_bytes.saturating_add(facts.other_bytes);
        if let Some(gpu) = self.places.last().copied().flatten().and_then(|it| gpus.get_mut(it)) {
            // A tied output is loaded a second time, because the input embeddings stay in RAM.
            gpu.weights = sum([gpu.weights, outer, facts.tied_bytes]);
        } else {
            host.weights = sum([host.weights, outer, copied(facts.output_repack_bytes)]);
        }
        if self.settings.split_mode == SplitMode::Row {
            let used = gpus.iter().filter(|it| it.weights > 0).count().max(1) as u64;
            let each = sum(gpus.iter().map(|it| it.weights)) / used;
            for gpu in gpus.iter_mut().filter(|it| it.weights > 0) {
                gpu.weights = each;
            }
        }
        host
    }

    /// Adds the weights that come with the model. Adapters lie where the model's layers do, a projector on the main
    /// GPU. A draft model is distributed by free memory, whatever the model's own settings are.
    fn beside(&self, gpus: &mut [GpuShare], host: &mut GpuShare) {
        let Beside { projector, adapters, draft } = self.facts.beside;
        let layers: Vec<u64> = gpus.iter().map(|it| it.weights).chain([host.weights]).collect();
        spread(adapters, &layers, gpus, host);
        let free = |it: &GpuMemory| if self.settings.draft == Side::Ram { 0 } else { it.free.max(1) };
        let free: Vec<u64> = self.settings.gpus.iter().map(free).chain([0]).collect();
        spread(draft, &free, gpus, host);
        let first = gpus.first_mut().filter(|_| self.settings.projector == Side::Gpu);
        let share = first.unwrap_or(host);
        share.weights = share.weights.saturating_add(projector);
    }

    fn cache(&self, cells: &Cells, gpus: &mut [GpuShare], host: &mut GpuShare) {
        if self.facts.encoder {
            return;
        }
        for (layer, place) in self.facts.layers.iter().zip(&self.places) {
            let bytes = layer_bytes(layer, cells, self.settings.cache_type_k, self.settings.cache_type_v);
            let at = place.map(|it| if self.settings.split_mode == SplitMode::Row { 0 } else { it });
            let share = at.and_then(|it| gpus.get_mut(it)).unwrap_or(host);
            share.kv_cache = share.kv_cache.saturating_add(bytes);
        }
    }

    fn compute(&self, tokens: u64, cells: Cells, gpus: &mut [GpuShare], host: &mut GpuShare) {
        let (facts, settings) = (self.facts, self.settings);
        // Without a unified cache each slot gets the same number of tokens.
        let tokens = if self.unified { tokens } else { pad(tokens, self.slots) };
        let outputs = if facts.pooled || settings.logits_for_all { tokens } else { self.slots.min(tokens) };
        let converts = (settings.cache_type_k == CacheType::F32, settings.cache_type_v == CacheType::F32);
        let flash = settings.flash_attn.unwrap_or(true);
        let graph = compute_bytes(facts, &Batch { tokens, outputs, cells, flash, converts });
        let mut on_host = true;
        for gpu in gpus.iter_mut().filter(|it| it.weights > 0) {
            gpu.compute = graph;
            on_host = false;
        }
        let partly = self.places.iter().any(Option::is_none);
        host.compute = if on_host || partly {
            graph
        } else {
            // The inputs are the mask and the embeddings.
            product([tokens, cells.seen, 2]).saturating_add(product([tokens, facts.n_embd, 8]))
        };
        let width = if facts.pooled { facts.n_embd } else { facts.n_vocab };
        host.compute = host.compute.saturating_add(product([self.slots, width, 4]));
    }

    fn finish(&self, gpus: Vec<GpuShare>, host: GpuShare) -> Estimate {
        let settings = self.settings;
        let all = || gpus.iter().chain([&host]);
        let host_ram = host.total();
        let in_ram = settings.host_ram_free.map(|free| host_ram <= free);
        let used: Vec<(&GpuShare, &GpuMemory)> =
            gpus.iter().zip(settings.gpus).filter(|it| it.0.total() > 0).collect();
        let on_gpus = used.iter().all(|(share, gpu)| share.total() <= gpu.free);
        let fits = match (used.is_empty(), on_gpus, in_ram) {
            (_, false, _) | (_, _, Some(false)) => Some(false),
            (true, true, known) => known,
            // If the model is on GPUs, RAM holds little that matters, unless layers were left there.
            (false, true, Some(true)) => Some(true),
            (false, true, None) => self.places.iter().all(Option::is_some).then_some(true),
        };
        let available =
            if used.is_empty() { settings.host_ram_free } else { Some(sum(used.iter().map(|it| it.1.free))) };
        Estimate {
            weights: sum(all().map(|it| it.weights)),
            kv_cache: sum(all().map(|it| it.kv_cache)),
            compute: sum(all().map(|it| it.compute)),
            overhead: sum(all().map(|it| it.overhead)),
            host_ram,
            total: sum(all().map(GpuShare::total)),
            fits,
            available,
            max_context_that_fits: None,
            layers_on_gpus: None,
            notes: Vec::new(),
            per_gpu: gpus,
        }
    }
}

/// Adds `bytes` in proportion to `shares`, of which the last is the RAM's. If all shares are 0, everything goes to RAM.
fn spread(bytes: u64, shares: &[u64], gpus: &mut [GpuShare], host: &mut GpuShare) {
    let all = sum(shares.iter().copied());
    let mut left = bytes;
    for (gpu, share) in gpus.iter_mut().zip(shares) {
        let part = (u128::from(bytes) * u128::from(*share)).checked_div(u128::from(all)).unwrap_or(0);
        let part = u64::try_from(part).unwrap_or(left).min(left);
        gpu.weights = gpu.weights.saturating_add(part);
        left = left.saturating_sub(part);
    }
    host.weights = host.weights.saturating_add(left);
}

fn notes(facts: &ModelFacts, context: u64) -> Vec<String> {
    let mut notes = facts.notes.clone();
    if let Some(longest) = facts.context_train.filter(|it| context > *it) {
        notes.push(format!(
            "the model was trained for {longest} tokens: no request may be longer, but memory is taken for {context}"
        ));
    }
    if facts.layers.iter().any(|it| it.latent.is_some() || it.recurrent.is_some()) {
        notes.push("compute buffers of this kind of attention are approximate".to_owned());
    }
    notes
}
