//! Collects the spans of the data plane into batches and sends them to the collector. The data plane never waits for
//! it: spans that do not fit into its buffer are dropped and counted.

use std::{collections::VecDeque, sync::atomic::Ordering::Relaxed, time::Duration};

use bytes::Bytes;
use gantry_dataplane::spans::Span;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    Counts,
    client::{Client, Failure},
    encode,
};

/// Most spans in a batch: the default of OpenTelemetry's `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
const BATCH: usize = 512;
/// Longest wait for a batch to fill.
const GATHER: Duration = Duration::from_secs(1);
/// First pause between two tries; it doubles each time. A collector that asks for a shorter pause gets this one too.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause between two tries while the gateway stops.
const LAST_PAUSE: Duration = Duration::from_millis(200);
/// Longest time to send the remaining spans when the gateway stops.
const FLUSH: Duration = Duration::from_secs(4);

/// Exports spans in batches.
pub(crate) struct Exporter {
    blocks: Receiver<Vec<Span>>,
    waiting: Waiting,
    /// Number of spans in the batch that is being sent.
    under_way: u64,
    client: Client,
    resource: Resource,
    counts: Counts,
    /// The last try failed.
    failing: bool,
}

impl Exporter {
    pub(super) fn new(
        blocks: Receiver<Vec<Span>>,
        client: Client,
        resource: Resource,
        counts: Counts,
        room: usize,
    ) -> Self {
        let waiting = Waiting { spans: VecDeque::new(), room, counts: counts.clone() };
        Self { blocks, waiting, under_way: 0, client, resource, counts, failing: false }
    }

    /// Exports until `stop` is cancelled, and then for at most `FLUSH` to send the remaining spans.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let patience = async {
            stop.cancelled().await;
            tokio::time::sleep(FLUSH).await;
        };
        tokio::select! {
            // The data-plane threads may end before `stop` is cancelled. This task then still waits for `stop`,
            // because a task that ends early stops the whole process.
            () = async { self.work(&stop).await; stop.cancelled().await } => {}
            () = patience => {}
        }
        self.blocks.close();
        while let Ok(block) = self.blocks.try_recv() {
            self.waiting.spans.extend(block);
        }
        let lost = self.under_way + self.waiting.spans.len() as u64;
        if lost > 0 {
            self.counts.dropped.fetch_add(lost, Relaxed);
            warn!(lost, "spans could not be exported before the end");
        }
    }

    /// Sends batches until there are no more blocks and nothing is left to send.
    async fn work(&mut self, stop: &CancellationToken) {
        loop {
            while self.waiting.spans.is_empty() {
                match self.next(stop).await {
                    Some(block) => self.waiting.keep(block),
                    None => return,
                }
            }
            self.gather(stop).await;
            let n = self.waiting.spans.len().min(BATCH);
            let body = encode::request(&self.resource, self.waiting.spans.drain(..n));
            self.under_way = n as u64;
            self.deliver(body.into(), stop).await;
            self.under_way = 0;
        }
    }

    /// Returns the next block. Once the gateway stops, the channel is closed for new blocks, so that the export comes
    /// to an end.
    async fn next(&mut self, stop: &CancellationToken) -> Option<Vec<Span>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            block = self.blocks.recv() => return block,
        }
        self.blocks.close();
        self.blocks.recv().await
    }

    async fn gather(&mut self, stop: &CancellationToken) {
        let end = tokio::time::sleep(GATHER);
        tokio::pin!(end);
        while self.waiting.spans.len() < BATCH {
            tokio::select! {
                () = &mut end => return,
                () = stop.cancelled() => return,
                block = self.blocks.recv() => match block {
                    Some(block) => self.waiting.keep(block),
                    None => return,
                },
            }
        }
    }

    /// Retries until the batch is taken or refused, and keeps the blocks that arrive meanwhile.
    async fn deliver(&mut self, body: Bytes, stop: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        loop {
            let (client, blocks) = (&mut self.client, &mut self.blocks);
            let sent = meanwhile(client.post(body.clone()), blocks, &mut self.waiting).await;
            let asked = match sent {
                Ok(rejected) => return self.delivered(rejected),
                Err(Failure::Refused(why)) => {
                    self.counts.rejected.fetch_add(self.under_way, Relaxed);
                    self.fails(&why);
                    return;
                }
                Err(Failure::Later(why, asked)) => {
                    self.fails(&why);
                    asked
                }
            };
            let wait = async {
                tokio::select! {
                    () = tokio::time::sleep(asked.map_or(pause, |it| it.max(FIRST_PAUSE))) => {}
                    () = stop.cancelled() => tokio::time::sleep(LAST_PAUSE).await,
                }
            };
            meanwhile(wait, &mut self.blocks, &mut self.waiting).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn delivered(&mut self, rejected: u64) {
        let rejected = rejected.min(self.under_way);
        self.counts.exported.fetch_add(self.under_way - rejected, Relaxed);
        self.counts.rejected.fetch_add(rejected, Relaxed);
        if std::mem::take(&mut self.failing) {
            info!("spans are exported again");
        }
    }

    /// Warns once each time that exporting begins to fail.
    fn fails(&mut self, why: &str) {
        if std::mem::replace(&mut self.failing, true) {
            debug!(why, "spans can't be exported");
        } else {
            warn!(
                why,
                "spans can't be exported (OTEL_EXPORTER_OTLP_ENDPOINT); told once until they are again"
            );
        }
    }
}

/// Waits for `future`, and keeps the blocks that arrive meanwhile.
async fn meanwhile<T>(
    future: impl Future<Output = T>,
    blocks: &mut Receiver<Vec<Span>>,
    waiting: &mut Waiting,
) -> T {
    tokio::pin!(future);
    loop {
        tokio::select! {
            done = &mut future => return done,
            Some(block) = blocks.recv() => waiting.keep(block),
        }
    }
}

/// Spans that wait for a later batch.
struct Waiting {
    spans: VecDeque<Span>,
    /// Capacity in spans.
    room: usize,
    counts: Counts,
}

impl Waiting {
    fn keep(&mut self, mut block: Vec<Span>) {
        let room = self.room.saturating_sub(self.spans.len());
        let dropped = block.len().saturating_sub(room) as u64;
        block.truncate(room);
        self.counts.dropped.fetch_add(dropped, Relaxed);
        self.spans.extend(block);
    }
}
