//! Looks at the GPUs and the RAM of the machine that engines run on. Drivers are asked off the async threads, at most
//! every two seconds. A driver that hangs holds up only one thread, however many callers wait.

mod amd;
pub mod capabilities;
pub mod host;
mod inventory;
mod nvidia;
mod own_memory;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_domain::machine::{Gpu, GpuVendor, HostMemory};
use nvml_wrapper::Nvml;
use parking_lot::Mutex;
use sysinfo::System;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

pub use inventory::InventoryError;
pub use own_memory::own_memory;

/// Age up to which the last answer is used again.
const FRESH: Duration = Duration::from_secs(2);
/// Longest wait for drivers; after that, callers get the last answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What was seen at one look.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// By index; empty on a machine without GPUs.
    pub gpus: Vec<Gpu>,
    /// `None` if it is unknown.
    pub memory: Option<HostMemory>,
}

/// Looks at GPUs and RAM, one look at a time, and keeps the last answer.
pub struct Machine {
    /// GPUs from the inventory file, which replace those that the drivers report.
    recorded: Option<Vec<Gpu>>,
    last: Mutex<Option<(Instant, Arc<Seen>)>>,
    /// One look at a time.
    looking: Arc<Semaphore>,
    /// NVIDIA's library, once it was found.
    nvml: Mutex<Option<Nvml>>,
}

impl Machine {
    /// With `inventory`, the GPUs are those of that file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn new(inventory: Option<&Path>) -> Result<Self, InventoryError> {
        Ok(Self {
            recorded: inventory.map(inventory::read).transpose()?,
            last: Mutex::default(),
            looking: Arc::new(Semaphore::new(1)),
            nvml: Mutex::default(),
        })
    }

    /// Returns the GPUs and the RAM, at most two seconds old unless a driver hangs.
    pub async fn refresh(self: &Arc<Self>) -> Arc<Seen> {
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let Ok(Ok(turn)) = timeout(PATIENCE, Arc::clone(&self.looking).acquire_owned()).await else {
            return self.stale();
        };
        // The caller that had the turn before may have brought the answer.
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let machine = Arc::clone(self);
        let look = tokio::task::spawn_blocking(move || machine.ask_drivers(turn));
        match timeout(PATIENCE, look).await {
            Ok(Ok(seen)) => seen,
            _ => self.stale(),
        }
    }

    /// Returns the indexes of the GPUs that engines can be given; `None` if neither a driver nor a file lists them.
    /// A runtime that hands out GPUs itself has only NVIDIA's. If the machine's are shared, AMD's count too, where there
    /// are no others.
    pub async fn engine_gpus(self: &Arc<Self>, shared: bool) -> Option<Vec<u32>> {
        let seen = self.refresh().await;
        let of = |vendor: GpuVendor| -> Vec<u32> {
            seen.gpus.iter().filter(|it| it.vendor == vendor).map(|it| it.index).collect()
        };
        let mut found = of(GpuVendor::Nvidia);
        if shared && found.is_empty() {
            found = of(GpuVendor::Amd);
        }
        (self.recorded.is_some() || !found.is_empty()).then_some(found)
    }

    fn fresh(&self) -> Option<Arc<Seen>> {
        let last = self.last.lock();
        last.as_ref().filter(|it| it.0.elapsed() < FRESH).map(|it| Arc::clone(&it.1))
    }

    fn stale(&self) -> Arc<Seen> {
        tracing::warn!("the GPU driver does not answer; what is shown of the machine is old");
        let last = self.last.lock();
        last.as_ref().map(|it| Arc::clone(&it.1)).unwrap_or_default()
    }

    /// Asks the drivers. The turn ends when this returns, even if no caller waits for it any more.
    fn ask_drivers(&self, turn: OwnedSemaphorePermit) -> Arc<Seen> {
        let gpus = self.recorded.clone().or_else(|| self.nvidia()).unwrap_or_else(amd::gpus);
        let seen = Arc::new(Seen { gpus, memory: memory() });
        *self.last.lock() = Some((Instant::now(), Arc::clone(&seen)));
        drop(turn);
        seen
    }

    /// Returns the version of NVIDIA's driver, or why it is not used. Blocking.
    pub(crate) fn nvml(&self) -> Result<String, String> {
        nvidia::state(&mut self.nvml.lock())
    }

    /// Whether the GPUs are those of a file.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    fn nvidia(&self) -> Option<Vec<Gpu>> {
        nvidia::gpus(&mut self.nvml.lock())
    }
}

/// Returns RAM by `/proc/meminfo`. If the gateway is in a container with a limit (cgroup v1 or v2), returns that of the
/// container.
fn memory() -> Option<HostMemory> {
    let mut system = System::new().ok()?;
    system.refresh_memory();
    let all = HostMemory { total: system.total_memory(), available: system.available_memory() };
    let Some(limits) = system.cgroup_limits().filter(|it| (1..all.total).contains(&it.total_memory)) else {
        return Some(all).filter(|it| it.total > 0);
    };
    // Cached files count against the limit, but the kernel frees them when memory is needed.
    let left = limits.total_memory.saturating_sub(limits.rss);
    Some(HostMemory { total: limits.total_memory, available: left.min(all.available) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_tells_the_ram_and_is_given_again_for_a_while() {
        let machine = Arc::new(Machine::new(None).unwrap());
        let seen = machine.refresh().await;
        let memory = seen.memory.unwrap();
        assert!(memory.total > 64 << 20 && memory.available > 0 && memory.available <= memory.total);
        let kernel = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = kernel.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
        assert!(memory.total <= total * 1024, "{memory:?}");
        assert!(Arc::ptr_eq(&seen, &machine.refresh().await), "the second look was not a new one");
    }

    #[tokio::test]
    async fn a_look_that_hangs_holds_up_nobody_for_long() {
        let machine = Arc::new(Machine::new(None).unwrap());
        let seen = machine.refresh().await;
        machine.last.lock().as_mut().unwrap().0 -= FRESH * 2;
        let _hanging = Arc::clone(&machine.looking).acquire_owned().await.unwrap();
        tokio::time::pause();
        assert!(Arc::ptr_eq(&seen, &machine.refresh().await), "the last answer is given");
    }
}
