//! Spans of requests go to a collector (OTLP over HTTP). Without the feature `otlp` this program can't do that, and says
//! so when it is told to.

#[cfg(feature = "otlp")]
mod client;
#[cfg(feature = "otlp")]
mod encode;
#[cfg(feature = "otlp")]
mod export;

use std::sync::{Arc, atomic::AtomicU64};

use gantry_dataplane::spans::Spans;
use gantry_settings::Settings;

#[cfg(feature = "otlp")]
pub(crate) use self::export::Exporter;

/// What became of spans.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) exported: Arc<AtomicU64>,
    /// The collector did not want them.
    pub(crate) rejected: Arc<AtomicU64>,
    /// The collector was away or too slow, and there was no more room for them.
    pub(crate) dropped: Arc<AtomicU64>,
}

/// What the data plane is told, and what has to run, if `OTEL_EXPORTER_OTLP_ENDPOINT` is set.
///
/// # Errors
/// A setting can't be used.
#[cfg(feature = "otlp")]
pub(crate) fn open(settings: &Settings, counts: &Counts) -> anyhow::Result<Option<(Spans, Exporter)>> {
    use gantry_dataplane::spans::Sampler;

    /// Blocks that wait for the exporter at most; of each data-plane thread there are two a second, or more of 256.
    const BLOCKS: usize = 64;
    let Some(endpoint) = &settings.otel_exporter_otlp_endpoint else { return Ok(None) };
    let (to, blocks) = tokio::sync::mpsc::channel(BLOCKS);
    let (follows_parent, share) = settings.otel_traces_sampler.decides(settings.otel_traces_sampler_arg);
    let spans =
        Spans { sampler: Sampler { follows_parent, share }, to, dropped: Arc::clone(&counts.dropped) };
    let client = client::Client::new(endpoint.clone(), &settings.otel_exporter_otlp_headers)?;
    let resource = encode::resource(settings);
    let room = settings.otel_bsp_max_queue_size as usize;
    Ok(Some((spans, Exporter::new(blocks, client, resource, counts.clone(), room))))
}

/// Never there.
#[cfg(not(feature = "otlp"))]
pub(crate) struct Exporter(std::convert::Infallible);

#[cfg(not(feature = "otlp"))]
impl Exporter {
    pub(crate) fn run(self, _stop: tokio_util::sync::CancellationToken) -> std::future::Ready<()> {
        match self.0 {}
    }
}

/// # Errors
/// A collector is set, which is more than this build can do.
#[cfg(not(feature = "otlp"))]
pub(crate) fn open(settings: &Settings, _counts: &Counts) -> anyhow::Result<Option<(Spans, Exporter)>> {
    anyhow::ensure!(
        settings.otel_exporter_otlp_endpoint.is_none(),
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but this program was built without the feature `otlp`: build it with \
         `--features otlp`, or unset it"
    );
    Ok(None)
}
