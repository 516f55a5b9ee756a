//! `GET /admin/models/{id}/logs?follow=true`: the lines of an engine as they come. Ends with the session that asked.

use std::{convert::Infallible, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::{App, app::LogStream, policy::Grant, session};

/// Longest time without a line before a comment is sent, so that nothing on the way takes the connection for dead.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

struct Reader {
    app: App,
    grant: Grant,
    lines: LogStream,
    check: Interval,
    silent_since: Instant,
}

/// Server-sent events, one for each line.
pub(super) fn events(
    app: App,
    grant: Grant,
    lines: LogStream,
) -> impl Stream<Item = Result<String, Infallible>> {
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
                line = self.lines.next() => return Some(format!("data: {}\n\n", json!({ "line": line? }))),
                () = sleep_until(self.silent_since + COMMENT_EVERY) => return Some(": still here\n\n".to_owned()),
            }
        }
    }
}
