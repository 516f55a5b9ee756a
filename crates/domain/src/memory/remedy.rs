//! Finds a setting to change if a model does not fit, with a value that the estimate confirms.

use std::fmt;

use super::{Command, Estimate, LlamacppCommand, MIB, ModelFacts, Room, VllmCommand, VllmSettings, largest};

/// Bounds of `gpu_memory_utilization` in the field table.
const UTILIZATION: (f64, f64) = (0.05, 0.98);

/// Values with which the model fits if nothing else changes: field names and values, the most important first. It is
/// never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy(pub Vec<(&'static str, Number)>);

/// A value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A count.
    Whole(u64),
    /// A share, 0 to 1.
    Fraction(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(it) => it.fmt(f),
            Self::Fraction(it) => it.fmt(f),
        }
    }
}

/// Finds what to change if `estimate` says that the model does not fit; `None` if nothing was found. A shorter context
/// is tried first, since it costs nothing but length.
pub fn remedy(command: &Command, facts: &ModelFacts, room: Room<'_>, estimate: &Estimate) -> Option<Remedy> {
    let fits = |command: &Command| command.estimate(facts, room).is_ok_and(|it| it.fits == Some(true));
    let longest = estimate.max_context_that_fits.filter(|it| *it > 0);
    match command {
        Command::Llamacpp(it) => llamacpp(it, facts, room, longest, &fits),
        Command::Vllm(it) => vllm(it, facts, room, longest, &fits),
    }
}

fn llamacpp(
    command: &LlamacppCommand,
    facts: &ModelFacts,
    room: Room<'_>,
    longest: Option<u64>,
    fits: &dyn Fn(&Command) -> bool,
) -> Option<Remedy> {
    let changed = |change: &dyn Fn(&mut LlamacppCommand)| {
        let mut command = command.clone();
        change(&mut command);
        fits(&Command::Llamacpp(command))
    };
    if let Some(length) = longest
        && changed(&|it| it.settings.context = Some(length))
    {
        return Some(Remedy(vec![("context_size", Number::Whole(length))]));
    }
    if room.gpus.is_empty() {
        return None;
    }
    let with_layers = |layers: u64| changed(&|it| it.settings.ngl = Some(layers));
    let layers = largest(1, facts.layers.len() as u64, with_layers);
    with_layers(layers).then(|| Remedy(vec![("ngl", Number::Whole(layers))]))
}

fn vllm(
    command: &VllmCommand,
    facts: &ModelFacts,
    room: Room<'_>,
    longest: Option<u64>,
    fits: &dyn Fn(&Command) -> bool,
) -> Option<Remedy> {
    let changed = |change: &dyn Fn(&mut VllmCommand)| {
        let mut command = command.clone();
        change(&mut command);
        Command::Vllm(command)
    };
    if let Some(length) = longest
        && fits(&changed(&|it| it.settings.max_model_len = Some(length)))
    {
        return Some(Remedy(vec![("max_model_len", Number::Whole(length))]));
    }
    if room.gpus.is_empty() {
        return smaller_cache(command, facts, room, fits);
    }
    let settings = &command.settings;
    let workers = settings.tensor_parallel.saturating_mul(settings.pipeline_parallel);
    let used = room.gpus.get(..usize::try_from(workers).ok()?).filter(|it| !it.is_empty())?;
    if settings.kv_cache_memory.is_none() {
        // The share that is free on each of its GPUs, in hundredths.
        let free = used.iter().map(|it| it.free as f64 / it.total.max(1) as f64).fold(1.0, f64::min);
        let share = (free.min(UTILIZATION.1) * 100.0).floor() / 100.0;
        if share >= UTILIZATION.0 {
            let with_share = changed(&|it| it.settings.gpu_memory_utilization = share);
            let set = ("gpu_memory_utilization", Number::Fraction(share));
            if fits(&with_share) {
                return Some(Remedy(vec![set]));
            }
            let longest = with_share.estimate(facts, room).ok().and_then(|it| it.max_context_that_fits);
            if let Some(length) = longest.filter(|it| *it > 0)
                && fits(&changed(&|it| {
                    it.settings.gpu_memory_utilization = share;
                    it.settings.max_model_len = Some(length);
                }))
            {
                return Some(Remedy(vec![set, ("max_model_len", Number::Whole(length))]));
            }
        }
    }
    more_gpus(facts, settings, room.gpus.len() as u64, |size| {
        fits(&changed(&|it| it.settings.tensor_parallel = size))
    })
}

/// Finds a larger number of GPUs per stage, up to all `gpus`, with which the model fits.
fn more_gpus(
    facts: &ModelFacts,
    settings: &VllmSettings<'_>,
    gpus: u64,
    fits: impl Fn(u64) -> bool,
) -> Option<Remedy> {
    // The number of GPUs must divide the heads. It must also divide the key and value heads, or be a multiple of them.
    let divides = |size: u64| {
        facts.layers.iter().all(|it| {
            it.n_head.is_multiple_of(size)
                && (it.n_head_kv.is_multiple_of(size) || size.is_multiple_of(it.n_head_kv))
        })
    };
    let most = gpus / settings.pipeline_parallel.max(1);
    let more = || settings.tensor_parallel.saturating_add(1)..=most;
    // Engines are tuned for powers of two.
    let powers = more().filter(|it| it.is_power_of_two());
    let mut sizes = powers.chain(more().filter(|it| !it.is_power_of_two()));
    let size = sizes.find(|it| divides(*it) && fits(*it))?;
    Some(Remedy(vec![("tensor_parallel_size", Number::Whole(size))]))
}

/// Finds a cache size for which RAM has room beside everything else: in whole GiB, or in MiB if it is below 2 GiB.
fn smaller_cache(
    command: &VllmCommand,
    facts: &ModelFacts,
    room: Room<'_>,
    fits: &dyn Fn(&Command) -> bool,
) -> Option<Remedy> {
    let with_cache = |bytes: u64| {
        let mut command = command.clone();
        // If the record sets the size, it replaces the variable.
        (command.settings.cpu_cache, command.settings.kv_cache_memory) = (None, Some(bytes));
        Command::Vllm(command)
    };
    let rest = with_cache(0).estimate(facts, room).ok()?;
    let workers = command.settings.tensor_parallel.saturating_mul(command.settings.pipeline_parallel).max(1);
    let each = room.host_ram_free?.checked_sub(rest.host_ram.saturating_sub(rest.kv_cache))? / workers;
    let unit = if each >= 2 << 30 { 1 << 30 } else { MIB };
    let bytes = each / unit * unit;
    (bytes > 0 && fits(&with_cache(bytes)))
        .then(|| Remedy(vec![("kv_cache_memory_bytes", Number::Whole(bytes))]))
}
