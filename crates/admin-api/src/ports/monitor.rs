//! The machine, and the gateway's own work.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use gantry_domain::{
    host::{Capabilities, HostNow, Throughput, Trends, UpstreamView},
    machine::{Gpu, HostMemory},
    view,
};

/// What the gateway knows of its machine and its own work.
pub trait Monitor: Send + Sync + 'static {
    /// The machine now; `None` if a file system hangs.
    fn host(&self) -> BoxFuture<'static, Option<HostNow>>;
    /// Returns the samples of the last `minutes`.
    fn trends(&self, minutes: u64) -> BoxFuture<'static, Option<Trends>>;
    fn throughput(&self) -> Throughput;
    fn capabilities(&self) -> BoxFuture<'static, Option<Capabilities>>;
    /// All engines, by served name.
    fn upstreams(&self) -> Vec<UpstreamView>;
    /// Probes the engines of these served names now, or all engines if there is no list.
    fn probe(&self, served_names: Option<Vec<String>>) -> BoxFuture<'static, ()>;
    /// Maps each process id to the id of the container that the process runs in, or of the engine that it belongs to,
    /// as far as it can be seen.
    fn containers(&self, pids: Vec<u32>) -> BoxFuture<'static, HashMap<u32, String>>;
    /// The machine that engines run on.
    fn machine(&self) -> BoxFuture<'static, MachineView>;
    /// The boot id of the machine; empty if it is not known.
    fn boot(&self) -> String;
    /// Returns the counts of the usage spool since the gateway started.
    fn spool(&self) -> SpoolReport;
}

/// What the machine has, as it was seen last.
#[derive(Debug, Clone, Default)]
pub struct MachineView {
    pub gpus: Vec<Gpu>,
    /// `None`: unknown.
    pub memory: Option<HostMemory>,
}

view! {
    /// Counts of this gateway's usage spool since the gateway started.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SpoolReport {
        /// Rows of requests that ended.
        pub written: u64,
        /// Records that could not be written at first.
        pub write_errors: u64,
        /// Rows that were shipped to the database.
        pub shipped: u64,
        /// Shipped rows that the database had already, because they were read again after a crash or an outage.
        pub replayed: u64,
        /// Rows that were written and are neither in the database nor on disk: files of the spool were removed.
        pub missing: u64,
        /// Damaged places that were skipped.
        pub torn: u64,
        /// Bytes that are on disk and not in the database yet.
        pub backlog_bytes: u64,
    }
}
