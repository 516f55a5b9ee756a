//! `GET /auth/events`: server-sent events for users who may not read those of `/admin/events`: which models they may call,
//! and whether these answer.
//!
//! All readers share one reading of the models, which is made while somebody reads. A reader that is slow misses nothing:
//! every event has the whole list.

use std::{convert::Infallible, sync::Arc};

use axum::extract::State;
use futures_util::{Stream, stream};
use gantry_domain::ErrorCode;
use tokio::{
    sync::watch::Receiver,
    time::{Instant, Interval, sleep_until},
};

use super::{
    models::is_allowed,
    own_model::{OwnEvent, OwnModel},
};
use crate::{
    App,
    caller::Caller,
    error::Outcome,
    event_stream::{COMMENT, COMMENT_EVERY, EventStream, RETRY_MS, checks},
    events::look_callable,
    operation::Operation,
    seats::Seat,
};

pub(crate) const EVENTS: Operation = Operation::new("streamOwnEvents", "Events about models that one may call")
    .about(
        "A stream of server-sent events. It begins with `models`, which has the list of `GET /auth/models`. The same event \
         comes again whenever something in that list changes. The stream ends with the session.",
    )
    .errors(&[ErrorCode::TooManyStreams, ErrorCode::StreamsExhausted]);

pub(crate) async fn events(app: State<App>, caller: Caller) -> Outcome<EventStream<OwnEvent>> {
    let seat = caller.take_seat(&app.bounds.seats)?;
    let mut models = app.signals.feed.follow_callable();
    look_callable(&app).await?;
    // What was there before is the first event.
    models.mark_changed();
    let reader = Reader {
        app: app.0,
        caller,
        _seat: seat,
        models,
        is_begun: false,
        sent: None,
        check: checks(),
        silent_since: Instant::now(),
    };
    Ok(EventStream::of(reader.stream()))
}

/// One connection.
struct Reader {
    app: App,
    caller: Caller,
    _seat: Seat,
    models: Receiver<Arc<Vec<OwnModel>>>,
    is_begun: bool,
    sent: Option<Vec<OwnModel>>,
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

    /// Returns what is sent next; `None` ends the connection.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return Some(format!("retry: {RETRY_MS}\n\n"));
        }
        loop {
            tokio::select! {
                // The session is checked first, so that its user sees nothing more once it has ended.
                biased;
                _ = self.check.tick() => {
                    if !self.caller.grant.holds(&self.app).await {
                        return None;
                    }
                }
                changed = self.models.changed() => {
                    changed.ok()?;
                    let own = self.own().await?;
                    if self.sent.as_ref() != Some(&own) {
                        self.sent = Some(own.clone());
                        return Some(OwnEvent::Models(own).text(None));
                    }
                }
                () = sleep_until(self.silent_since + COMMENT_EVERY) => return Some(COMMENT.to_owned()),
            }
        }
    }

    /// Returns the models that the user may call by now: an administrator may have changed that since the stream began.
    async fn own(&mut self) -> Option<Vec<OwnModel>> {
        let all = Arc::clone(&self.models.borrow_and_update());
        let user = self.app.store.read_quick().await.ok()?.user(self.caller.user.id).await.ok()??;
        Some(all.iter().filter(|it| is_allowed(&user, it)).cloned().collect())
    }
}
