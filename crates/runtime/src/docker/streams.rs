//! Reads logs and events, the answers that come in pieces.

use std::collections::VecDeque;

use bollard::{
    container::LogOutput,
    errors::Error,
    models::EventMessage,
    query_parameters::{EventsOptionsBuilder, LogsOptions, LogsOptionsBuilder},
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use gantry_domain::{Clock, LogWindow, ModelId};
use tokio::time::timeout;

use super::{ASK, Docker, LOGS, error::status, label};
use crate::{
    RuntimeError, RuntimeResult,
    log_lines::{LineReader, Tail},
};

/// The events of a container that the reconciler wants, without its health checks and `exec`s.
const EVENTS: [&str; 9] = ["create", "start", "restart", "pause", "unpause", "die", "oom", "stop", "destroy"];
/// How far back a new stream of events reaches, in seconds: an event that came while the stream was set up must not get
/// lost.
const EVENTS_OVERLAP_S: i64 = 2;

/// Stdout and stderr each have their own unfinished line.
struct Readers {
    out: LineReader,
    err: LineReader,
}

impl Readers {
    fn new(window: LogWindow) -> Self {
        let reader = || LineReader::with_colors(window.colors);
        Self { out: reader(), err: reader() }
    }

    fn push(&mut self, output: LogOutput, each: impl FnMut(String)) {
        match output {
            LogOutput::StdErr { message } => self.err.push(&message, each),
            LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message } => {
                self.out.push(&message, each);
            }
        }
    }

    fn finish(&mut self) -> impl Iterator<Item = String> {
        [self.out.finish(), self.err.finish()].into_iter().flatten()
    }
}

impl Docker {
    pub(super) async fn read_logs(&self, id: &str, window: LogWindow) -> RuntimeResult<String> {
        let read = async {
            let mut outputs = self.client().await?.logs(id, Some(options(window, false))).boxed();
            let (mut readers, mut text) = (Readers::new(window), Tail::new(window.tail));
            while let Some(output) = outputs.next().await {
                match output {
                    Ok(output) => readers.push(output, |line| text.push(line)),
                    Err(error) if status(&error) == Some(404) => break,
                    Err(error) => return Err(self.meaning("read the logs", &error)),
                }
            }
            readers.finish().for_each(|line| text.push(line));
            Ok(text.into_text())
        };
        timeout(LOGS, read).await.unwrap_or(Err(RuntimeError::Timeout { action: "read the logs" }))
    }

    pub(super) async fn log_stream(
        &self,
        id: &str,
        window: LogWindow,
    ) -> RuntimeResult<BoxStream<'static, String>> {
        // Asked first, because a stream could report its own failure only at its first line, which may be hours away.
        if self.look(id).await?.is_none() {
            return Ok(stream::empty().boxed());
        }
        let client = self.client().await?.clone().with_timeout(ASK);
        let outputs = client.logs(id, Some(options(window, true))).boxed();
        Ok(lines(outputs, Readers::new(window)))
    }

    pub(super) async fn event_stream(&self) -> RuntimeResult<BoxStream<'static, ModelId>> {
        let client = self.client().await?;
        self.within("ping", ASK, client.ping()).await?;
        let mut filters = self.ours();
        filters.insert("type".to_owned(), vec!["container".to_owned()]);
        filters.insert("event".to_owned(), EVENTS.map(str::to_owned).to_vec());
        let since = Clock::default().now().0 / 1000 - EVENTS_OVERLAP_S;
        let options = EventsOptionsBuilder::default().since(&since.to_string()).filters(&filters).build();
        let events = client.clone().with_timeout(ASK).events(Some(options)).boxed();
        // An unreadable message does not end the stream: at worst one hint is missing.
        let connected = events.take_while(|it| {
            let readable = matches!(it, Ok(_) | Err(Error::JsonDataError { .. }));
            std::future::ready(readable)
        });
        Ok(connected.filter_map(async |event| model_id(&event.ok()?)).boxed())
    }
}

fn options(window: LogWindow, follow: bool) -> LogsOptions {
    let options = LogsOptionsBuilder::default().stdout(true).stderr(true).follow(follow);
    // Docker's 0 means no limit. Nothing was printed before 1970, and nothing is printed after 2038.
    let since = window.since.map_or(0, |it| i32::try_from(it.0.div_euclid(1000).max(0)).unwrap_or(i32::MAX));
    options.tail(&window.tail.to_string()).since(since).build()
}

/// Returns the model of an event. Docker repeats a container's labels in its events.
fn model_id(event: &EventMessage) -> Option<ModelId> {
    let labels = event.actor.as_ref()?.attributes.as_ref()?;
    Some(ModelId(labels.get(label::MODEL_ID)?.parse().ok()?))
}

/// State of [`lines`]. `outputs` is `None` once they have ended.
struct Following {
    outputs: Option<BoxStream<'static, Result<LogOutput, Error>>>,
    readers: Readers,
    ready: VecDeque<String>,
}

fn lines(
    outputs: BoxStream<'static, Result<LogOutput, Error>>,
    readers: Readers,
) -> BoxStream<'static, String> {
    let start = Following { outputs: Some(outputs), readers, ready: VecDeque::new() };
    stream::unfold(start, async |mut it| {
        loop {
            if let Some(line) = it.ready.pop_front() {
                return Some((line, it));
            }
            if let Some(Ok(output)) = it.outputs.as_mut()?.next().await {
                it.readers.push(output, |line| it.ready.push_back(line));
            } else {
                it.outputs = None;
                it.ready.extend(it.readers.finish());
            }
        }
    })
    .boxed()
}
