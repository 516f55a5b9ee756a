//! Divides the memory that the gateway may have among what callers can make it hold.

use gantry_control::machine::own_memory;
use gantry_settings::Settings;

/// Share of the whole: what callers can fill leaves half of it for everything else.
const OF_INFERENCE: u64 = 4;
const OF_PEOPLE: u64 = 8;

/// Bytes for each of the uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBudget {
    /// Bodies of inference requests that have not reached their engine.
    pub(crate) inference: usize,
    /// Bodies of all other requests.
    pub(crate) bodies: usize,
    /// Answers to all other requests.
    pub(crate) answers: usize,
}

impl MemoryBudget {
    /// Looks at `MEMORY_MAX`, the control groups and the machine.
    pub(crate) fn of(settings: &Settings) -> Self {
        let whole = match settings.listening.memory_max {
            0 => own_memory().unwrap_or(u64::MAX),
            bytes => bytes as u64,
        };
        Self::of_whole(whole, settings.listening.request_body_memory_bytes.get())
    }

    fn of_whole(whole: u64, inference: usize) -> Self {
        let share = |of: u64| usize::try_from(whole / of).unwrap_or(usize::MAX);
        Self {
            inference: inference.min(share(OF_INFERENCE)),
            bodies: share(OF_PEOPLE),
            answers: share(OF_PEOPLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_can_fill_half_of_a_small_memory() {
        let budget = MemoryBudget::of_whole(256 << 20, 512 << 20);
        assert_eq!((budget.inference, budget.bodies, budget.answers), (64 << 20, 32 << 20, 32 << 20));
        assert_eq!(MemoryBudget::of_whole(u64::MAX, 512 << 20).inference, 512 << 20);
    }
}
