//! The estimate for vLLM.

use super::{
    Doubt, Estimate, GpuMemory, GpuShare, Layer, MIB, ModelFacts, Unknown, largest, pad, product, sum,
};

/// CUDA context, NCCL and libraries of one GPU, which vLLM subtracts as "non-torch memory"; 0.5 to 1 GiB in the
/// literature, not measured here.
const GPU_OVERHEAD: u64 = 768 * MIB;
/// CUDA graphs of one GPU, unless `--enforce-eager` is given; 0.2 to 1.5 GiB in the literature, not measured here.
const CUDA_GRAPHS: u64 = 512 * MIB;
const MOST_WORKERS: u64 = 1024;
/// Python, `PyTorch` and vLLM themselves on a machine without GPUs: the server, the engine and its first worker.
/// Measured, see `docs/memory-estimate.md`.
const CPU_PROCESSES: u64 = 1950 * MIB;
/// Memory of each worker after the first.
const CPU_WORKER: u64 = 560 * MIB;

/// `--kv-cache-dtype`, by its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VllmKvType {
    /// `auto`, `float16`, `bfloat16`: 2 bytes.
    #[default]
    Half,
    /// `auto` under `--dtype float32`: 4 bytes.
    Single,
    /// `fp8…` and `int8…`: 1 byte.
    Eight,
    /// `fp8_ds_mla`: 656 bytes for an entry of latent attention.
    LatentFp8,
}

impl VllmKvType {
    /// Reads a type as `--kv-cache-dtype` names it; `None` for one whose size is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" | "float16" | "bfloat16" => Some(Self::Half),
            "fp8_ds_mla" => Some(Self::LatentFp8),
            _ if text.starts_with("fp8") || text.starts_with("int8") => Some(Self::Eight),
            _ => None,
        }
    }

    fn bytes(self, elements: u64) -> u64 {
        elements.saturating_mul(match self {
            Self::Half => 2,
            Self::Single => 4,
            Self::Eight | Self::LatentFp8 => 1,
        })
    }
}

/// The settings that the command line makes.
#[derive(Debug, Clone, PartialEq)]
pub struct VllmSettings<'a> {
    /// Share of a GPU's whole memory; 0.92 unless given (0.9 before vLLM 0.20).
    pub gpu_memory_utilization: f64,
    pub tensor_parallel: u64,
    pub pipeline_parallel: u64,
    /// Context in tokens. `None`: what the model was trained for.
    pub max_model_len: Option<u64>,
    /// 256 unless given, on most GPUs.
    pub max_num_seqs: u64,
    /// 2048 unless given, on most GPUs.
    pub max_num_batched_tokens: u64,
    pub kv_type: VllmKvType,
    /// Size of a cache block in tokens.
    pub block_size: u64,
    pub enforce_eager: bool,
    /// Weights of each GPU that stay in RAM, in bytes.
    pub cpu_offload: u64,
    /// Size of the KV cache in bytes, for each GPU or, without GPUs, for each worker. It overrides
    /// `gpu_memory_utilization`.
    pub kv_cache_memory: Option<u64>,
    /// Size of the KV cache in bytes, as the environment sets it. Only engines without GPUs obey it, and it takes
    /// precedence over `kv_cache_memory`.
    pub cpu_cache: Option<u64>,
    /// GPUs that the engine is given, at least as many as it uses; empty: it computes on CPUs.
    pub gpus: &'a [GpuMemory],
    /// Free RAM in bytes; `None`: unknown.
    pub host_ram_free: Option<u64>,
    /// RAM of the machine in total, in bytes; `None`: unknown.
    pub host_ram_total: Option<u64>,
}

impl Default for VllmSettings<'_> {
    fn default() -> Self {
        Self {
            gpu_memory_utilization: 0.92,
            tensor_parallel: 1,
            pipeline_parallel: 1,
            max_model_len: None,
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            kv_type: VllmKvType::Half,
            block_size: 16,
            enforce_eager: false,
            cpu_offload: 0,
            kv_cache_memory: None,
            cpu_cache: None,
            gpus: &[],
            host_ram_free: None,
            host_ram_total: None,
        }
    }
}

/// Estimates what vLLM will take. vLLM fills its budget with cache, so the question is whether one request of
/// `max_model_len` fits in what the weights leave. See `docs/memory-estimate.md`.
///
/// # Errors
/// A fact is missing, or vLLM refuses the settings.
pub fn estimate_vllm(facts: &ModelFacts, settings: &VllmSettings<'_>) -> Result<Estimate, Unknown> {
    let length = settings.max_model_len.or(facts.context_train).ok_or_else(|| {
        Unknown::because("neither `max_model_len` nor what the model was trained for is known")
    })?;
    if settings.tensor_parallel == 0 || settings.pipeline_parallel == 0 {
        return Err(Unknown::because("parallelism starts at 1"));
    }
    let workers = settings.tensor_parallel.saturating_mul(settings.pipeline_parallel);
    if workers > MOST_WORKERS {
        return Err(Unknown::because(format!("{workers} GPUs are more than any machine has")));
    }
    if !settings.gpus.is_empty() && workers > settings.gpus.len() as u64 {
        return Err(Unknown::because(format!(
            "tensor and pipeline parallelism need {workers} GPUs, and the model is given {}",
            settings.gpus.len()
        )));
    }
    let worker = Worker { facts, settings };
    if settings.gpus.is_empty() && worker.reserved(0).is_none() {
        return Err(Unknown::because(
            "it takes a share of the machine's RAM, and how much that is is unknown",
        ));
    }
    Ok(worker.estimate(length, workers))
}

struct Worker<'a> {
    facts: &'a ModelFacts,
    settings: &'a VllmSettings<'a>,
}

impl Worker<'_> {
    /// Returns what worker `worker` takes, with a cache for `length` tokens, and the bytes of its weights that stay in
    /// RAM.
    fn share(&self, worker: u64, length: u64) -> (GpuShare, u64) {
        let stage = worker / self.settings.tensor_parallel;
        let on_gpus = !self.settings.gpus.is_empty();
        let all = self.weights(stage);
        let kept = if on_gpus { self.settings.cpu_offload.min(all) } else { 0 };
        let share = GpuShare {
            weights: all.saturating_sub(kept),
            kv_cache: self.cache(stage, length),
            compute: self.activations(),
            overhead: match (on_gpus, worker) {
                (true, _) => self.overhead(),
                (false, 0) => CPU_PROCESSES,
                (false, _) => CPU_WORKER,
            },
        };
        (share, kept)
    }

    fn estimate(&self, length: u64, workers: u64) -> Estimate {
        let settings = self.settings;
        let mut estimate = Estimate::default();
        let (mut leaves, mut fits) = (u64::MAX, true);
        let on_gpus = !settings.gpus.is_empty();
        for worker in 0..workers {
            let stage = worker / settings.tensor_parallel;
            let (mut share, kept) = self.share(worker, length);
            estimate.host_ram = estimate.host_ram.saturating_add(kept);
            estimate.weights = estimate.weights.saturating_add(kept);
            let fixed = sum([share.weights, share.compute, share.overhead]);
            let pool = match settings.gpus.get(worker as usize) {
                Some(gpu) => {
                    let budget = match settings.kv_cache_memory {
                        Some(cache) => fixed.saturating_add(cache),
                        None => (gpu.total as f64 * settings.gpu_memory_utilization.clamp(0.0, 1.0)) as u64,
                    };
                    fits &= budget <= gpu.free && fixed <= budget;
                    budget.saturating_sub(fixed)
                }
                // Free RAM is compared with what all workers take together.
                None => self.reserved(fixed).unwrap_or(0),
            };
            fits &= share.kv_cache <= pool;
            leaves = leaves.min(self.longest(stage, pool, length));
            share.kv_cache = share.kv_cache.max(pool);
            estimate.weights = estimate.weights.saturating_add(share.weights);
            estimate.kv_cache = estimate.kv_cache.saturating_add(share.kv_cache);
            estimate.compute = estimate.compute.saturating_add(share.compute);
            estimate.overhead = estimate.overhead.saturating_add(share.overhead);
            if on_gpus {
                estimate.per_gpu.push(share);
            } else {
                estimate.host_ram = estimate.host_ram.saturating_add(share.total());
            }
        }
        estimate.per_gpu.resize(settings.gpus.len(), GpuShare::default());
        estimate.total = sum([estimate.weights, estimate.kv_cache, estimate.compute, estimate.overhead]);
        let in_ram = settings.host_ram_free.map(|free| estimate.host_ram <= free);
        estimate.max_context_that_fits = (leaves != u64::MAX && !self.facts.encoder).then_some(leaves);
        if on_gpus {
            estimate.fits = Some(fits && in_ram != Some(false));
            estimate.available = Some(sum(settings.gpus.iter().take(workers as usize).map(|it| it.free)));
        } else {
            estimate.fits = if fits { in_ram } else { Some(false) };
            estimate.available = settings.host_ram_free;
        }
        estimate.notes = self.notes(on_gpus, length, &estimate);
        if !on_gpus && self.takes_share() && estimate.fits == Some(false) {
            // vLLM takes the share from the memory of one NUMA node, which is less than all RAM on a machine with
            // several nodes.
            estimate.leave_out(Doubt::Less, "the share is counted of all RAM, as if it were one memory node");
        }
        estimate
    }

    /// Whether no size of the cache is given, so that the cache gets the rest of the engine's share.
    fn takes_share(&self) -> bool {
        self.settings.cpu_cache.or(self.settings.kv_cache_memory).is_none()
    }

    /// Returns the bytes of cache that a worker without a GPU takes beside `fixed` bytes, all of it when it starts
    /// (vLLM 0.32.0, `platforms/cpu.py` and `v1/worker/cpu_worker.py`). `None`: it takes a share of the RAM, whose size
    /// is unknown.
    fn reserved(&self, fixed: u64) -> Option<u64> {
        let settings = self.settings;
        if self.facts.encoder {
            return Some(0);
        }
        settings.cpu_cache.or(settings.kv_cache_memory).or_else(|| {
            let share = settings.host_ram_total? as f64 * settings.gpu_memory_utilization.clamp(0.0, 1.0);
            Some((share as u64).saturating_sub(fixed))
        })
    }

    /// Returns the layers of a pipeline stage, split as evenly as possible. Where vLLM puts the remainder was not
    /// checked.
    fn layers(&self, stage: u64) -> &[Layer] {
        let (count, stages) = (self.facts.layers.len() as u64, self.settings.pipeline_parallel);
        let from = count.saturating_mul(stage) / stages;
        let to = count.saturating_mul(stage + 1) / stages;
        self.facts.layers.get(from as usize..to as usize).unwrap_or_default()
    }

    fn weights(&self, stage: u64) -> u64 {
        let facts = self.facts;
        let stages = self.settings.pipeline_parallel;
        let mut bytes = sum(self.layers(stage).iter().map(|it| it.bytes));
        if stage == 0 {
            bytes = sum([bytes, facts.input_bytes, facts.other_bytes]);
        }
        if stage + 1 == stages {
            // A tied output is the same tensor as the embedding, unless it lies on another GPU.
            let tied = if stages > 1 { facts.tied_bytes } else { 0 };
            bytes = sum([bytes, facts.output_bytes, tied]);
        }
        bytes.div_ceil(self.settings.tensor_parallel)
    }

    /// Returns the cache of one request with `length` tokens. Heads are copied if there are fewer than GPUs; latent
    /// entries are always copied.
    fn cache(&self, stage: u64, length: u64) -> u64 {
        if self.facts.encoder {
            return 0;
        }
        let settings = self.settings;
        let block = settings.block_size.max(1);
        let tokens = pad(length, block);
        // A sliding window keeps `window - 1` tokens and those of one batch, and one more block where it begins.
        let window = self.facts.window.saturating_sub(1).saturating_add(settings.max_num_batched_tokens);
        let sliding = tokens.min(pad(window, block).saturating_add(block));
        sum(self.layers(stage).iter().map(|layer| {
            let count = if layer.sliding { sliding } else { tokens };
            let per_token = match layer.latent {
                _ if layer.shares_cache => 0,
                Some(_) if settings.kv_type == VllmKvType::LatentFp8 => 656,
                Some((latent, _)) => settings.kv_type.bytes(latent),
                None => {
                    let heads = layer.n_head_kv.div_ceil(settings.tensor_parallel);
                    let each = layer.key_length.saturating_add(layer.value_length);
                    settings.kv_type.bytes(heads.saturating_mul(each))
                }
            };
            let recurrent = layer.state().saturating_mul(4).div_ceil(settings.tensor_parallel);
            count.saturating_mul(per_token).saturating_add(recurrent)
        }))
    }

    fn longest(&self, stage: u64, pool: u64, length: u64) -> u64 {
        let most = self.facts.context_train.unwrap_or(length);
        if self.cache(stage, most) <= pool {
            return most;
        }
        largest(self.settings.block_size.max(1), most, |it| self.cache(stage, it) <= pool)
    }

    /// Estimates what vLLM's profiling run finds: activations of a full batch and the logits of all requests, plus a
    /// tenth. This is a rule of thumb: only the profiling run itself gives the exact number.
    fn activations(&self) -> u64 {
        let (facts, settings) = (self.facts, self.settings);
        let inner = facts
            .layers
            .iter()
            .map(|it| it.n_ff.max(it.n_ff_expert.saturating_mul(facts.n_expert_used)))
            .max()
            .unwrap_or(0);
        let per_token = facts
            .n_embd
            .saturating_mul(10)
            .saturating_add(inner.saturating_mul(2).div_ceil(settings.tensor_parallel));
        let batch = product([settings.max_num_batched_tokens, per_token, 2]);
        let logits = if facts.pooled { 0 } else { product([settings.max_num_seqs, facts.n_vocab, 4]) };
        let bytes = batch.saturating_add(logits);
        bytes.saturating_add(bytes / 10)
    }

    fn overhead(&self) -> u64 {
        GPU_OVERHEAD.saturating_add(if self.settings.enforce_eager { 0 } else { CUDA_GRAPHS })
    }

    fn notes(&self, on_gpus: bool, length: u64, estimate: &Estimate) -> Vec<String> {
        let mut notes = self.facts.notes.clone();
        let one = sum((0..self.settings.pipeline_parallel).map(|it| self.cache(it, length)))
            .saturating_mul(self.settings.tensor_parallel);
        let needs = format!("one request of {length} tokens needs {} MiB of it", one.div_ceil(MIB));
        if on_gpus {
            notes.push(format!("vLLM fills its share of the GPU with cache; {needs}"));
        } else {
            if !self.facts.encoder {
                let reserved = estimate.kv_cache.div_ceil(MIB);
                notes.push(format!("on CPUs vLLM reserves {reserved} MiB of cache when it starts; {needs}"));
            }
            let processes = estimate.overhead.div_ceil(MIB);
            notes.push(format!("counted are {processes} MiB for the engine's processes themselves"));
        }
        notes
    }
}
