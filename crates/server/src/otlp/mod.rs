//! Sends spans of requests to a collector (OTLP over HTTP). A program built without the feature `otlp` can't do that,
//! and refuses to start if a collector is set.
//!
//! The crate `opentelemetry-otlp` (looked at in 0.33, without its HTTP clients) would bring in only itself and
//! `opentelemetry-http`, and could use our TLS through its `HttpClient` trait. It is not used because users would lose
//! something and little code would go:
//! * `gantry_trace_spans_total` counts rejected and dropped spans. Its exporter and its batch processor only log them.
//! * It gives a batch up after 3 retries within the time limit of one export. We keep it while there is room.
//! * Its batch processor exports on a thread without a Tokio runtime, where our connections do not work. With the
//!   exporter alone, the queue, the batches and the attributes would stay here.
//! * It would build each span twice, as `SpanData` and as a message: 6.6 instead of 3.7 µs for a span with 15 attributes
//!   (release build, batches of 512), and 352 more bytes for each span that waits.

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
    /// Spans that the collector refused.
    pub(crate) rejected: Arc<AtomicU64>,
    /// Spans that found no room, because the collector was unreachable or too slow.
    pub(crate) dropped: Arc<AtomicU64>,
}

/// Returns the data plane's part and the exporter that has to run, if `OTEL_EXPORTER_OTLP_ENDPOINT` is set.
///
/// # Errors
/// A setting can't be used.
#[cfg(feature = "otlp")]
pub(crate) fn open(settings: &Settings, counts: &Counts) -> anyhow::Result<Option<(Spans, Exporter)>> {
    use gantry_dataplane::spans::Sampler;

    /// Most blocks that may wait for the exporter. Each data-plane thread sends two blocks a second, or more of 256
    /// spans each.
    const BLOCKS: usize = 64;
    let Some(endpoint) = &settings.tracing.otel_exporter_otlp_endpoint else { return Ok(None) };
    let (to, blocks) = tokio::sync::mpsc::channel(BLOCKS);
    let (follows_parent, share) =
        settings.tracing.otel_traces_sampler.decides(settings.tracing.otel_traces_sampler_arg);
    let spans =
        Spans { sampler: Sampler { follows_parent, share }, to, dropped: Arc::clone(&counts.dropped) };
    let client = client::Client::new(endpoint.0.clone(), &settings.tracing.otel_exporter_otlp_headers)?;
    let resource = encode::resource(settings);
    let room = settings.tracing.otel_bsp_max_queue_size as usize;
    Ok(Some((spans, Exporter::new(blocks, client, resource, counts.clone(), room))))
}

/// Can't exist: this build has no exporter.
#[cfg(not(feature = "otlp"))]
pub(crate) struct Exporter(std::convert::Infallible);

#[cfg(not(feature = "otlp"))]
impl Exporter {
    pub(crate) fn run(self, _stop: tokio_util::sync::CancellationToken) -> std::future::Ready<()> {
        match self.0 {}
    }
}

/// # Errors
/// A collector is set, and this build can't send to it.
#[cfg(not(feature = "otlp"))]
pub(crate) fn open(settings: &Settings, _counts: &Counts) -> anyhow::Result<Option<(Spans, Exporter)>> {
    anyhow::ensure!(
        settings.tracing.otel_exporter_otlp_endpoint.is_none(),
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but this program was built without the feature `otlp`: build it with \
         `--features otlp`, or unset it"
    );
    Ok(None)
}
