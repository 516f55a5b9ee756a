//! The setting to change when a model does not fit, with a value that was tried.

use std::fmt;

use super::{Command, Estimate, LlamacppCommand, MIB, ModelFacts, Room, VllmCommand, largest};

/// Bounds of `gpu_memory_utilization` in the field table.
const UTILIZATION: (f64, f64) = (0.05, 0.98);

/// Values with which the model fits, all else unchanged: names of the field table, the most important first; never
/// empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy(pub Vec<(&'static str, Number)>);

/// A value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Whole(u64),
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

/// What to change so that a model fits whose `estimate` says that it does not; `None` if nothing was found. A shorter
/// context comes first, since it costs nothing but length.
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
        // As much as is free on each of its GPUs, in hundredths.
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
    // The heads have to divide among the GPUs; those of keys and values too, unless each has several GPUs to itself.
    let divides = |size: u64| {
        facts.layers.iter().all(|it| {
            it.n_head.is_multiple_of(size)
                && (it.n_head_kv.is_multiple_of(size) || size.is_multiple_of(it.n_head_kv))
        })
    };
    let most = (room.gpus.len() as u64) / settings.pipeline_parallel.max(1);
    let more = || settings.tensor_parallel.saturating_add(1)..=most;
    // Engines are tuned for powers of two.
    let powers = more().filter(|it| it.is_power_of_two());
    let sizes = powers.chain(more().filter(|it| !it.is_power_of_two()));
    let size = sizes
        .filter(|it| divides(*it))
        .find(|size| fits(&changed(&|it| it.settings.tensor_parallel = *size)))?;
    Some(Remedy(vec![("tensor_parallel_size", Number::Whole(size))]))
}

/// A cache that RAM has room for beside the rest, in whole GiB or, below two, in MiB.
fn smaller_cache(
    command: &VllmCommand,
    facts: &ModelFacts,
    room: Room<'_>,
    fits: &dyn Fn(&Command) -> bool,
) -> Option<Remedy> {
    let with_cache = |bytes: u64| {
        let mut command = command.clone();
        // Set in the record, it takes the place of the variable.
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
