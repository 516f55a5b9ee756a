//! `GET /admin/events`: server-sent events for the pages: models as they change, pulls, and one model's log on demand.
//!
//! Each reader has a place in a shared, bounded queue and no queue of its own. A reader that falls behind gets the
//! event `lag` and is cut off; it comes back with `Last-Event-ID` and gets what it missed, or a `reset`. The connection
//! ends with the session, and when the gateway drains (the data plane ends every event stream then).

use std::{collections::VecDeque, convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderMap,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::IntoResponse,
};
use futures_util::{Stream, StreamExt, stream};
use gantry_domain::{LogWindow, ModelId, account_token::Right};
use serde_json::{Value, json};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};

pub use crate::feed::watch;
use crate::{
    App,
    app::LogStream,
    error::Outcome,
    feed::{Catch, Event},
    models,
    operation::Params,
    policy::{Caller, Grant},
    seats::Seat,
    session,
};

/// How long a browser waits after a broken connection before it comes back, in milliseconds.
const RETRY_MS: u32 = 2000;
/// Longest time without an event before a comment is sent, so that nothing on the way takes the connection for dead.
const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// Number of log lines from before the request that are sent.
const LOG_TAIL: usize = 200;

/// Events for the UI
///
/// A stream of server-sent events. It begins with `snapshot`, all models; then come `model`, `model_deleted` and `pull`
/// as things change. With `logs` (the id of a model) also `log` for each line of its engine and `log_end`. A reader
/// that comes back with `Last-Event-ID` gets what it missed, or `reset` with all models if that is not known any more.
/// Ends with the session, and with `lag` if the reader is too slow.
pub(crate) async fn events(
    app: State<App>,
    caller: Caller,
    headers: HeaderMap,
    mut params: Params,
) -> Outcome<impl IntoResponse> {
    let logs = params.id("logs")?.map(ModelId);
    params.finish()?;
    if logs.is_some() {
        // The log of an engine is part of its model, here as below `/admin/models`.
        caller.grant.reaches("models", Right::Read)?;
    }
    let seat = app.seats.take(caller.grant.key())?;
    let logs = match logs {
        None => None,
        Some(id) => {
            let model = models::find(&app, id.0).await?;
            Some((id, app.engines.follow(&model, LogWindow::last(LOG_TAIL)).await?))
        }
    };
    app.feed.look(&app).await?;
    let seen = headers.get("last-event-id").map(|it| it.to_str().unwrap_or_default());
    let (begin, live) = app.feed.begin(seen.filter(|it| !it.is_empty()));

    let mut first = format!("retry: {RETRY_MS}\n\n");
    match begin.what {
        Catch::Up(models) => first += &text(Some(&app.feed.id(begin.last)), "snapshot", &models),
        Catch::Reset(models) => first += &text(Some(&app.feed.id(begin.last)), "reset", &models),
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
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(reader.stream())))
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
        if let Some(events) = self.app.feed.since(self.last) {
            self.last = events.last().map_or(self.last, |it| it.n);
            return events.iter().map(|it| of(&self.app, it)).collect();
        }
        self.live = None;
        text(None, "lag", &json!({ "missed": missed }))
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
                        return Some(text(None, "log_end", &json!({ "id": id })));
                    };
                    return Some(text(None, "log", &json!({ "id": id, "line": line })));
                }
                () = sleep_until(self.silent_since + COMMENT_EVERY) => return Some(": still here\n\n".to_owned()),
            }
        }
    }
}

fn of(app: &App, event: &Event) -> String {
    text(Some(&app.feed.id(event.n)), event.kind.as_str(), &event.data)
}

/// An event as it is sent. JSON has no line breaks of its own.
fn text(id: Option<&str>, kind: &str, data: &Value) -> String {
    let mut text = String::new();
    if let Some(id) = id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = write!(text, "event: {kind}\ndata: {data}\n\n");
    text
}

fn checks() -> Interval {
    let mut check = interval(session::CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    check
}
