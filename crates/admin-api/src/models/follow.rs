//! `GET /admin/models/{id}/logs?follow=true`: the lines of an engine as they come. Ends with the session that asked.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, StreamExt, stream};
use gantry_domain::{
    schema::{Shape, event, json_text},
    view,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::{
    App,
    caller::Grant,
    event_stream,
    operation::{Doc, Output},
    ports::LogStream,
    seats::Seat,
    session,
};

/// Longest time without a line before a comment is sent, so that nothing on the way takes the connection for dead.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

view! {
    /// The data of one event.
    #[derive(Debug)]
    struct Line {
        line: String,
    }
}

/// The lines as server-sent events: another form of the answer that is described before.
pub(crate) struct Lines(Body);

impl Lines {
    /// The `seat` is taken for as long as the connection lasts.
    pub(super) fn new(app: App, grant: Grant, lines: LogStream, seat: Seat) -> Self {
        let events = events(app, grant, lines).map(move |event| {
            let _held = &seat;
            event
        });
        Self(Body::from_stream(events))
    }
}

impl IntoResponse for Lines {
    fn into_response(self) -> Response {
        (event_stream::headers(), self.0).into_response()
    }
}

impl Output for Lines {
    fn describe(doc: &mut Doc) {
        let line = Line::schema(&mut doc.components);
        if let Some(reply) = doc.answers.last_mut() {
            reply.content.push((event_stream::KIND, event(json_text(line))));
        }
    }
}

struct Reader {
    app: App,
    grant: Grant,
    lines: LogStream,
    check: Interval,
    silent_since: Instant,
}

/// Server-sent events, one for each line.
fn events(app: App, grant: Grant, lines: LogStream) -> impl Stream<Item = Result<String, Infallible>> {
    let mut check = interval(session::CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reader = Reader { app, grant, lines, check, silent_since: Instant::now() };
    stream::unfold(reader, async |mut reader| {
        let text = reader.next().await?;
        reader.silent_since = Instant::now();
        Some((Ok(text), reader))
    })
}

impl Reader {
    /// Returns what is sent next; `None` ends the connection.
    async fn next(&mut self) -> Option<String> {
        loop {
            tokio::select! {
                // The session is checked first, so that its user sees nothing more once it has ended.
                biased;
                _ = self.check.tick() => {
                    if !self.grant.holds(&self.app).await {
                        return None;
                    }
                }
                line = self.lines.next() => {
                    let data = serde_json::to_string(&Line { line: line? }).unwrap_or_default();
                    return Some(format!("data: {data}\n\n"));
                }
                () = sleep_until(self.silent_since + COMMENT_EVERY) => return Some(": still here\n\n".to_owned()),
            }
        }
    }
}
