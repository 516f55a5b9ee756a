//! `GET /admin/events`: server-sent events for the pages: models as they change, pulls, and one model's log on demand.
//!
//! Each reader has a place in a shared, bounded queue and no queue of its own. A reader that falls behind gets the
//! event `lag` and is cut off; it comes back with `Last-Event-ID` and gets what it missed, or a `reset`. The connection
//! ends with the session, and when the gateway drains (the data plane ends every event stream then).

pub(crate) mod message;
mod watch;

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use futures_util::{Stream, StreamExt, stream};
use gantry_domain::{ErrorCode, LogWindow, ModelId, account_token::Right, schema::text};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{Instant, Interval, sleep_until},
};

use self::message::{Lag, LogLine, Message, OfModel};
use crate::{
    App,
    caller::{Caller, Grant},
    error::Outcome,
    event_stream::{COMMENT, COMMENT_EVERY, EventStream, RETRY_MS, checks},
    feed::{Catch, Event},
    models,
    operation::{Doc, Input, Operation, Param, Query, query},
    ports::LogStream,
    seats::Seat,
};
pub(crate) use watch::look_callable;
pub use watch::watch;

/// Number of log lines from before the request that are sent.
const LOG_TAIL: usize = 200;

query! {
    pub(crate) struct EventQuery {
        /// The model whose log is sent as well.
        logs: Option<ModelId>,
    }
}

/// `Last-Event-ID`: the id of the last event that a reader got.
pub(crate) struct LastEventId(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let seen = parts.headers.get("last-event-id").and_then(|it| it.to_str().ok());
        Ok(Self(seen.filter(|it| !it.is_empty()).map(str::to_owned)))
    }
}

impl Input for LastEventId {
    fn describe(doc: &mut Doc) {
        let about = "The id of the last event that was seen.".to_owned();
        let name = "Last-Event-ID";
        doc.params.push(Param { place: "header", name, schema: text(), required: false, about });
    }
}

pub(crate) const EVENTS: Operation = Operation::new("streamEvents", "Events for pages")
    .about(
        "A stream of server-sent events. It begins with `snapshot`, which has all models. Then come `model`, \
         `model_deleted` and `pull` as things change, `job` for what somebody waits for (`image_load`), and `restore_drill` when a drill has ended. With `logs` \
         there is also `log` for each line of the log of that model's engine, and `log_end`. A reader that comes back with \
         `Last-Event-ID` gets what it missed, or `reset` with all models if that is not known any more. The stream ends \
         with the session, and with `lag` if the reader is too slow.",
    )
    .errors(&[
        ErrorCode::NotFound,
        ErrorCode::InvalidState,
        ErrorCode::TooManyStreams,
        ErrorCode::RuntimeUnavailable,
        ErrorCode::StreamsExhausted,
    ]);

pub(crate) async fn events(
    app: State<App>,
    caller: Caller,
    LastEventId(seen): LastEventId,
    Query(EventQuery { logs }): Query<EventQuery>,
) -> Outcome<EventStream<Message>> {
    if logs.is_some() {
        // The log of an engine is part of its model, here as below `/admin/models`.
        caller.grant.reaches("models", Right::Read)?;
    }
    let seat = caller.take_seat(&app.bounds.seats)?;
    let logs = match logs {
        None => None,
        Some(id) => {
            let model = models::find(&app, id.0).await?;
            Some((id, app.engines.follow(&model, LogWindow::last(LOG_TAIL)).await?))
        }
    };
    watch::look(&app).await?;
    let (begin, live) = app.signals.feed.begin(seen.as_deref());

    let mut first = format!("retry: {RETRY_MS}\n\n");
    match begin.what {
        Catch::All(models) => first += &models.text(Some(&app.signals.feed.id(begin.last))),
        Catch::Missed(events) => {
            for event in events {
                first += &of(&app, &event);
            }
        }
    }
    let reader = Reader {
        app: app.0,
        grant: caller.grant,
        _seat: seat,
        live: Some(live),
        last: begin.last,
        ready: VecDeque::from([first]),
        logs,
        check: checks(),
        silent_since: Instant::now(),
    };
    Ok(EventStream::of(reader.stream()))
}

/// One connection.
struct Reader {
    app: App,
    grant: Grant,
    _seat: Seat,
    /// `None` when it is over.
    live: Option<Receiver<Arc<Event>>>,
    /// Number of the last event that was sent.
    last: u64,
    /// To be sent before anything else.
    ready: VecDeque<String>,
    logs: Option<(ModelId, LogStream)>,
    check: Interval,
    silent_since: Instant,
}

impl Reader {
    fn stream(self) -> impl Stream<Item = Result<String, Infallible>> {
        stream::unfold(self, async |mut reader| {
            let text = reader.next().await?;
            reader.silent_since = Instant::now();
            Some((Ok(text), reader))
        })
    }

    /// A reader that lags is caught up from the ring. If the ring no longer has what it missed, it gets `lag` and has
    /// to reconnect: nothing is kept for single readers.
    fn catch_up(&mut self, missed: u64) -> String {
        if let Some(events) = self.app.signals.feed.since(self.last) {
            self.last = events.last().map_or(self.last, |it| it.n);
            return events.iter().map(|it| of(&self.app, it)).collect();
        }
        self.live = None;
        Message::Lag(Lag { missed }).text(None)
    }

    /// Returns what is sent next; `None` ends the connection.
    async fn next(&mut self) -> Option<String> {
        if let Some(text) = self.ready.pop_front() {
            return Some(text);
        }
        loop {
            let queue = self.live.as_mut()?;
            let log = async {
                match &mut self.logs {
                    Some((id, lines)) => (*id, lines.next().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The session is checked first, so that its user sees nothing more once it has ended.
                biased;
                _ = self.check.tick() => {
                    if !self.grant.holds(&self.app).await {
                        return None;
                    }
                }
                event = queue.recv() => match event {
                    Ok(event) if event.n <= self.last => {}
                    Ok(event) => {
                        self.last = event.n;
                        return Some(of(&self.app, &event));
                    }
                    Err(RecvError::Lagged(missed)) => return Some(self.catch_up(missed)),
                    Err(RecvError::Closed) => return None,
                },
                (id, line) = log => {
                    let Some(line) = line else {
                        self.logs = None;
                        return Some(Message::LogEnd(OfModel { id }).text(None));
                    };
                    return Some(Message::Log(LogLine { id, line }).text(None));
                }
                () = sleep_until(self.silent_since + COMMENT_EVERY) => return Some(COMMENT.to_owned()),
            }
        }
    }
}

fn of(app: &App, event: &Event) -> String {
    event.message.text(Some(&app.signals.feed.id(event.n)))
}
