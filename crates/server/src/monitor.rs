//! Gives the admin API the control plane's data about the machine and the engines.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use futures_util::{FutureExt, future::BoxFuture};
use gantry_admin_api::ports::{MachineView, Monitor, SpoolReport};
use gantry_control::{Control, machine::host};
use gantry_domain::host::{Capabilities, HostNow, Throughput, Trends, UpstreamView};

/// See [`Monitor`].
pub(crate) struct Watch(pub(crate) Arc<Control>);

impl Monitor for Watch {
    fn host(&self) -> BoxFuture<'static, Option<HostNow>> {
        let control = Arc::clone(&self.0);
        async move { control.host_now().await }.boxed()
    }

    fn trends(&self, minutes: u64) -> BoxFuture<'static, Option<Trends>> {
        let (samples, now) = (Arc::clone(&self.0.samples), self.0.clock.now());
        // Runs on a blocking thread, because there are up to 8640 samples in a dozen series.
        async move { tokio::task::spawn_blocking(move || samples.trends(now, minutes)).await.ok() }.boxed()
    }

    fn throughput(&self) -> Throughput {
        self.0.samples.throughput(&self.0.shared)
    }

    fn capabilities(&self) -> BoxFuture<'static, Option<Capabilities>> {
        let control = Arc::clone(&self.0);
        async move { control.capabilities().await }.boxed()
    }

    fn upstreams(&self) -> Vec<UpstreamView> {
        self.0.upstreams()
    }

    fn probe(&self, served_names: Option<Vec<String>>) -> BoxFuture<'static, ()> {
        let control = Arc::clone(&self.0);
        async move { control.probe_upstreams(served_names.as_deref()).await }.boxed()
    }

    fn containers(&self, pids: Vec<u32>) -> BoxFuture<'static, HashMap<u32, String>> {
        // Check for an engine process first: the gateway itself may run in a container, and its processes with it.
        let place = |pid| gantry_runtime::engine_of(pid).or_else(|| host::container_of(pid));
        let look = move || pids.into_iter().filter_map(|pid| Some((pid, place(pid)?))).collect();
        async move { tokio::task::spawn_blocking(look).await.unwrap_or_default() }.boxed()
    }

    fn machine(&self) -> BoxFuture<'static, MachineView> {
        let machine = Arc::clone(&self.0.machine);
        async move {
            let seen = machine.refresh().await;
            MachineView { gpus: seen.gpus.clone(), memory: seen.memory }
        }
        .boxed()
    }

    fn boot(&self) -> String {
        self.0.boot.clone()
    }

    fn spool(&self) -> SpoolReport {
        let counters = &self.0.shared.counters;
        SpoolReport {
            written: counters.requests_total(),
            write_errors: counters.spool_errors.load(Relaxed),
            shipped: counters.usage_shipped.load(Relaxed),
            replayed: counters.usage_replayed.load(Relaxed),
            missing: counters.spool_missing.load(Relaxed),
            torn: counters.spool_torn.load(Relaxed),
            backlog_bytes: counters.spool_backlog_bytes.load(Relaxed),
        }
    }
}
