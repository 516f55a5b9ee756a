//! Reads what an engine's command line says about memory. The estimate is made from the same command that a start runs,
//! so that defaults, versions and extra arguments are all included.

use super::{
    Beside, CacheType, Doubt, Estimate, GpuMemory, LlamacppSettings, ModelFacts, Side, Slots, SplitMode,
    Unknown, VllmKvType, VllmSettings, estimate_llamacpp, estimate_vllm,
    words::{Words, dashed, odd},
};
use crate::{
    engine::{EngineVersion, vllm::CPU_CACHE},
    model::{EngineKind, fields::llamacpp_builds as builds},
};

const GIB: f64 = (1_u64 << 30) as f64;
/// Build of llama-server from which a missing `-np` means 4 slots that share the cache (end of 2025; the exact build
/// was not looked up).
const AUTO_SLOTS: u32 = 7400;
/// Build from which logits are reserved per slot (llama.cpp #23861 of 2026-05-30; the build is interpolated from
/// dates of others).
const LOGITS_PER_SLOT: u32 = 8960;
/// Build from which flash attention defaults to `auto`.
const FLASH_AUTO: u32 = 6343;

/// Arguments that change memory in ways that the estimate does not follow.
const LLAMACPP_LEFT_OUT: &[LeftOut] = &[
    (&["--no-kv-offload", "-nkvo"], Doubt::Either, "not counted: `--no-kv-offload`"),
    (&["--device", "-dev"], Doubt::Either, "not counted: `--device`"),
];
/// Arguments after which llama-server no longer chooses by itself what goes to the GPUs (llama.cpp #16653,
/// `common_params_fit_impl`).
const PLACED: &[&str] = &["--n-cpu-moe", "-ncmoe", "--cpu-moe", "-cmoe", "--override-tensor", "-ot"];
const VLLM_LEFT_OUT: &[LeftOut] = &[
    (&["--enable-lora"], Doubt::More, "not counted: LoRA adapters"),
    (&["--speculative-config", "-sc"], Doubt::More, "not counted: the draft model"),
    (&["--data-parallel-size", "-dp"], Doubt::Either, "not counted: data parallelism"),
    (&["--kv-offloading-size", "--swap-space"], Doubt::More, "not counted: RAM for cache that is moved out"),
];
/// Names of an argument, in which direction it makes the estimate uncertain, and the note about it.
type LeftOut = (&'static [&'static str], Doubt, &'static str);

/// The memory that the machine has for the model.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// The GPUs that the engine is given; empty: none.
    pub gpus: &'a [GpuMemory],
    /// Free RAM in bytes; `None`: unknown.
    pub host_ram_free: Option<u64>,
    /// RAM in total, in bytes; `None`: unknown.
    pub host_ram_total: Option<u64>,
}

/// A command line that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A command of `llama-server`.
    Llamacpp(LlamacppCommand),
    /// A command of `vllm serve`.
    Vllm(VllmCommand),
}

/// A command line of llama-server.
#[derive(Debug, Clone, PartialEq)]
pub struct LlamacppCommand {
    /// The settings except GPUs, RAM and proportions, which are kept separately.
    pub settings: LlamacppSettings<'static>,
    pub tensor_split: Vec<f64>,
    /// `-mg`: the GPU that holds what is not split.
    pub main_gpu: usize,
    /// The model serves vectors or scores.
    pub pooled: bool,
    told: Vec<Told>,
    left_out: Vec<(Doubt, &'static str)>,
}

/// Arguments that matter only if the model has certain files or layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Projector,
    Draft,
    Adapters,
    /// Layers with a sliding window keep the whole context.
    FullWindows,
}

const TOLD: &[(&[&str], Told)] = &[
    (&["--mmproj", "-mm"], Told::Projector),
    (&["--model-draft", "-md", "--spec-draft-model"], Told::Draft),
    (&["--lora", "--lora-scaled"], Told::Adapters),
    (&["--swa-full"], Told::FullWindows),
];

const TENSOR_SPLIT: &[&str] = &["--tensor-split", "-ts"];

/// A command line of vLLM.
#[derive(Debug, Clone, PartialEq)]
pub struct VllmCommand {
    /// The settings except GPUs and RAM.
    pub settings: VllmSettings<'static>,
    /// Weights and activations are kept as `float32`.
    pub single: bool,
    /// The model serves vectors.
    pub pooled: bool,
    /// Weights are quantised while they are loaded.
    pub quantization: Option<String>,
    left_out: Vec<(Doubt, &'static str)>,
}

impl Command {
    /// Reads the arguments of the engine, as its container gets them.
    ///
    /// # Errors
    /// Names the argument whose effect on memory is unknown.
    pub fn parse(engine: EngineKind, version: EngineVersion, args: &[String]) -> Result<Self, Unknown> {
        match engine {
            EngineKind::Llamacpp => {
                LlamacppCommand::parse(Words(args), version.number()[0]).map(Self::Llamacpp)
            }
            EngineKind::Vllm => {
                let args: Vec<String> = args.iter().map(|it| dashed(it)).collect();
                VllmCommand::parse(Words(&args)).map(Self::Vllm)
            }
        }
    }

    /// Adds what the engine's environment says beside its arguments.
    ///
    /// # Errors
    /// There is a value that the engine does not understand.
    pub fn with_env(mut self, env: &[(String, String)]) -> Result<Self, Unknown> {
        let space = env.iter().rev().find(|it| it.0 == CPU_CACHE).map(|it| it.1.trim());
        if let (Self::Vllm(command), Some(space)) = (&mut self, space.filter(|it| !it.is_empty())) {
            let gib: u64 = space.parse().map_err(|_| {
                Unknown::because(format!("`{CPU_CACHE}` is `{space}`, which is no whole number of GiB"))
            })?;
            command.settings.cpu_cache = Some(gib.saturating_mul(1 << 30));
        }
        Ok(self)
    }

    /// Estimates the memory for the model with these facts.
    ///
    /// # Errors
    /// A fact is missing, or the engine refuses the settings.
    pub fn estimate(&self, facts: &ModelFacts, room: Room<'_>) -> Result<Estimate, Unknown> {
        match self {
            Self::Llamacpp(it) => it.estimate(facts, room),
            Self::Vllm(it) => it.estimate(facts, room),
        }
    }

    /// Returns the context that the command asks for, in tokens; `None`: what the model was trained for.
    pub fn context(&self) -> Option<u64> {
        match self {
            Self::Llamacpp(it) => it.settings.context.filter(|it| *it > 0),
            Self::Vllm(it) => it.settings.max_model_len,
        }
    }
}

impl LlamacppCommand {
    fn parse(words: Words<'_>, build: u32) -> Result<Self, Unknown> {
        let given = LlamacppSettings::default();
        let slots = slots(words, build)?;
        let cache = |names: &[&str]| match words.last(names) {
            None => Ok(CacheType::F16),
            Some(text) => CacheType::parse(text).ok_or_else(|| odd(names, text)),
        };
        let all = ["auto", "all", "-1", "-2"];
        let ngl = ["--n-gpu-layers", "--gpu-layers", "-ngl"];
        let placed = matches!(words.last(&ngl), Some(it) if it != "auto" && it != "-1");
        let ngl = match words.last(&ngl) {
            Some(text) if all.contains(&text) => None,
            _ => words.number(&ngl)?,
        };
        let split_mode = split_mode(words)?;
        let mut left_out = left_out(words, LLAMACPP_LEFT_OUT);
        let experts = experts_in_ram(words, &mut left_out)?;
        let off = matches!(words.last(&["--fit", "-fit"]), Some("off" | "0" | "false" | "disabled"));
        let fit = build >= builds::FIT[0]
            && !(off || placed || words.has(PLACED) || split_mode == SplitMode::Row)
            && !words.has(TENSOR_SPLIT);
        let draft_layers =
            words.number(&["--spec-draft-ngl", "--gpu-layers-draft", "--n-gpu-layers-draft", "-ngld"]);
        let mapped = match words.last(&["--load-mode", "-lm"]) {
            Some(mode) => matches!(mode, "auto" | "mmap" | "mmap+mlock"),
            None => !words.has(&["--no-mmap"]),
        };
        Ok(Self {
            settings: LlamacppSettings {
                context: words.number(&["--ctx-size", "-c"])?,
                slots,
                batch: words.number(&["--batch-size", "-b"])?.unwrap_or(given.batch),
                ubatch: words.number(&["--ubatch-size", "-ub"])?.unwrap_or(given.ubatch),
                cache_type_k: cache(&["--cache-type-k", "-ctk"])?,
                cache_type_v: cache(&["--cache-type-v", "-ctv"])?,
                flash_attn: flash_attention(words, build),
                ngl,
                fit,
                n_cpu_moe: experts,
                split_mode,
                mmap: mapped,
                logits_for_all: build < LOGITS_PER_SLOT,
                projector: if words.has(&["--no-mmproj-offload"]) { Side::Ram } else { Side::Gpu },
                draft: if draft_layers == Ok(Some(0)) { Side::Ram } else { Side::Gpu },
                ..given
            },
            tensor_split: tensor_split(words)?,
            main_gpu: words.number(&["--main-gpu", "-mg"])?.unwrap_or(0) as usize,
            pooled: words.has(&["--embedding", "--embeddings", "--reranking", "--rerank"]),
            told: TOLD.iter().filter(|it| words.has(it.0)).map(|it| it.1).collect(),
            left_out,
        })
    }

    fn estimate(&self, facts: &ModelFacts, room: Room<'_>) -> Result<Estimate, Unknown> {
        // The estimate puts everything that is not split on the first GPU.
        let main = match self.settings.split_mode {
            SplitMode::Layer => 0,
            SplitMode::None | SplitMode::Row => self.main_gpu,
        };
        if main > 0 && main >= room.gpus.len() && !room.gpus.is_empty() {
            return Err(Unknown::because(format!("there is no GPU {main} for `main_gpu` among those given")));
        }
        let mut gpus = room.gpus.to_vec();
        let mut split = self.tensor_split.clone();
        if !gpus.is_empty() {
            split.resize(gpus.len().max(split.len()), 0.0);
            gpus.swap(0, main);
            split.swap(0, main);
        }
        let settings = LlamacppSettings {
            // A remedy may have set the number of layers.
            fit: self.settings.fit && self.settings.ngl.is_none(),
            tensor_split: &split,
            gpus: &gpus,
            host_ram_free: room.host_ram_free,
            ..self.settings.clone()
        };
        let mut estimate = estimate_llamacpp(&served(facts, self.pooled), &settings)?;
        if !gpus.is_empty() {
            estimate.per_gpu.swap(0, main);
        }
        for told in &self.told {
            if let Some((doubt, what)) = told.leaves_out(facts) {
                estimate.leave_out(doubt, what);
            }
        }
        for (doubt, what) in &self.left_out {
            estimate.leave_out(*doubt, what);
        }
        Ok(estimate)
    }
}

impl Told {
    fn leaves_out(self, facts: &ModelFacts) -> Option<(Doubt, &'static str)> {
        let Beside { projector, adapters, draft } = facts.beside;
        let what = match self {
            Self::Projector if projector > 0 => "of the projector (`mmproj`), only the weights are counted",
            Self::Projector => "not counted: the projector (`mmproj`)",
            Self::Draft if draft > 0 => "of the draft model, only the weights are counted",
            Self::Draft => "not counted: the draft model",
            Self::Adapters if adapters > 0 => return None,
            Self::Adapters => "not counted: LoRA adapters",
            Self::FullWindows if facts.layers.iter().any(|it| it.sliding) => "not counted: `--swa-full`",
            Self::FullWindows => return None,
        };
        Some((Doubt::More, what))
    }
}

/// Reads how many requests run at the same time.
fn slots(words: Words<'_>, build: u32) -> Result<Slots, Unknown> {
    let parallel = match words.last(&["--parallel", "-np"]) {
        Some("-1") => None,
        _ => words.number(&["--parallel", "-np"])?,
    };
    let unified = words.has(&["--kv-unified", "-kvu"]);
    Ok(match parallel {
        Some(slots) => Slots::Fixed { slots, unified },
        None if build < AUTO_SLOTS => Slots::Fixed { slots: 1, unified },
        None => Slots::Auto,
    })
}

/// Reads whether flash attention is on; `None`: the engine decides.
fn flash_attention(words: Words<'_>, build: u32) -> Option<bool> {
    match words.last(&["--flash-attn", "-fa"]) {
        Some("on" | "1" | "true" | "enabled") => Some(true),
        Some("off" | "0" | "false" | "disabled") => Some(false),
        // In builds before `FLASH_AUTO` the argument was a switch without a value.
        None | Some(_) if build < FLASH_AUTO => Some(words.has(&["--flash-attn", "-fa"])),
        None | Some(_) => None,
    }
}

/// Reads the shares of the GPUs; nothing if they are not given.
fn tensor_split(words: Words<'_>) -> Result<Vec<f64>, Unknown> {
    let Some(text) = words.last(TENSOR_SPLIT) else { return Ok(Vec::new()) };
    let share = |it: &str| it.trim().parse().map_err(|_| odd(TENSOR_SPLIT, text));
    text.split([',', '/']).map(share).collect()
}

fn split_mode(words: Words<'_>) -> Result<SplitMode, Unknown> {
    match words.last(&["--split-mode", "-sm"]) {
        None | Some("layer") => Ok(SplitMode::Layer),
        Some("none") => Ok(SplitMode::None),
        Some("row") => Ok(SplitMode::Row),
        Some(other) => Err(odd(&["--split-mode"], other)),
    }
}

/// Returns how many layers, from the first, keep their experts in RAM.
fn experts_in_ram(words: Words<'_>, left_out: &mut Vec<(Doubt, &'static str)>) -> Result<u64, Unknown> {
    let names = ["--override-tensor", "-ot"];
    // Several `-ot` arguments add up.
    let known = words.count(&names) == 1 && words.last(&names).is_some_and(all_experts_in_ram);
    if words.has(&["--cpu-moe", "-cmoe"]) || known {
        return Ok(u64::MAX);
    }
    if words.has(&names) {
        left_out.push((Doubt::Either, "not counted: the placement by `override_tensor`"));
    }
    Ok(words.number(&["--n-cpu-moe", "-ncmoe"])?.unwrap_or(0))
}

impl VllmCommand {
    fn parse(words: Words<'_>) -> Result<Self, Unknown> {
        let given = VllmSettings::default();
        let single = matches!(words.last(&["--dtype"]), Some("float" | "float32"));
        let kv = ["--kv-cache-dtype"];
        let kv_type = match words.last(&kv) {
            None | Some("auto") if single => VllmKvType::Single,
            None => VllmKvType::Half,
            Some(text) => VllmKvType::parse(text).ok_or_else(|| odd(&kv, text))?,
        };
        let pooled = words.last(&["--runner"]) == Some("pooling")
            || words.last(&["--task"]).is_some_and(|it| it != "auto" && it != "generate");
        let eager = words.position(&["--enforce-eager"]) > words.position(&["--no-enforce-eager"]);
        let offload = words.float(&["--cpu-offload-gb"])?.unwrap_or(0.0);
        Ok(Self {
            settings: VllmSettings {
                gpu_memory_utilization: words
                    .float(&["--gpu-memory-utilization"])?
                    .unwrap_or(given.gpu_memory_utilization),
                tensor_parallel: words.number(&["--tensor-parallel-size", "-tp"])?.unwrap_or(1),
                pipeline_parallel: words.number(&["--pipeline-parallel-size", "-pp"])?.unwrap_or(1),
                max_model_len: words.number(&["--max-model-len"])?,
                max_num_seqs: words.number(&["--max-num-seqs"])?.unwrap_or(given.max_num_seqs),
                max_num_batched_tokens: words
                    .number(&["--max-num-batched-tokens"])?
                    .unwrap_or(given.max_num_batched_tokens),
                kv_type,
                block_size: words.number(&["--block-size"])?.unwrap_or(given.block_size),
                enforce_eager: eager,
                cpu_offload: (offload * GIB) as u64,
                kv_cache_memory: words.number(&["--kv-cache-memory-bytes"])?,
                ..given
            },
            single,
            pooled,
            quantization: words.last(&["--quantization", "-q"]).map(str::to_owned),
            left_out: left_out(words, VLLM_LEFT_OUT),
        })
    }

    fn estimate(&self, facts: &ModelFacts, room: Room<'_>) -> Result<Estimate, Unknown> {
        let settings = VllmSettings {
            gpus: room.gpus,
            host_ram_free: room.host_ram_free,
            host_ram_total: room.host_ram_total,
            ..self.settings.clone()
        };
        let mut estimate = estimate_vllm(&served(facts, self.pooled), &settings)?;
        for (doubt, what) in &self.left_out {
            estimate.leave_out(*doubt, what);
        }
        if let Some(method) = self.quantization.as_ref().filter(|_| !facts.quantized) {
            let what = format!(
                "weights are quantised to {method} while they are loaded; counted is what the files hold"
            );
            estimate.leave_out(Doubt::Less, &what);
        }
        Ok(estimate)
    }
}

/// Returns what the estimate leaves out because of the arguments of `table` that were given.
fn left_out(words: Words<'_>, table: &[LeftOut]) -> Vec<(Doubt, &'static str)> {
    table.iter().filter(|it| words.has(it.0)).map(|(_, doubt, what)| (*doubt, *what)).collect()
}

/// Returns the facts, marked as pooled if the model is served for vectors.
fn served(facts: &ModelFacts, pooled: bool) -> ModelFacts {
    let mut facts = facts.clone();
    facts.pooled |= pooled;
    facts
}

/// Whether `-ot` does the same as `--cpu-moe`, in the ways people write that: `exps=CPU`, `.ffn_.*_exps.=CPU`. Other
/// patterns would have to be matched against the names of all tensors.
fn all_experts_in_ram(placement: &str) -> bool {
    placement.split(',').all(|it| {
        let Some((pattern, "CPU")) = it.rsplit_once('=') else { return false };
        let plain = pattern.replace('\\', "");
        let name = plain.trim_start_matches(".*").trim_start_matches('.');
        let name = name.trim_end_matches(".*").trim_end_matches(".weight").trim_end_matches('.');
        let stem = name.strip_suffix("exps").map(|it| it.trim_end_matches('_'));
        match stem {
            Some("" | "ffn.*" | "ffn_.*" | "ffn_.+") => true,
            Some(stem) => stem.strip_prefix("ffn_(").and_then(|it| it.strip_suffix(')')).is_some_and(|it| {
                let mut kinds: Vec<&str> = it.split('|').collect();
                kinds.sort_unstable();
                kinds == ["down", "gate", "up"]
            }),
            None => false,
        }
    })
}
