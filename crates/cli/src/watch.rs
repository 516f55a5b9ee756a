//! `--watch`: what a verb shows, shown again whenever it changes.

use std::{future::pending, time::Duration};

use clap::{Arg, ArgMatches};
use serde_json::Value;
use tokio::{sync::Notify, time::sleep};

use crate::{
    cx::Cx,
    events::Events,
    exit::{Failure, Outcome},
    options::{flag, has},
    output::reader_gone,
};

/// How often the gateway is asked again if it sends no event: not everything has events, and not everybody may read them.
const EVERY: Duration = Duration::from_secs(2);

pub(crate) fn option() -> Arg {
    flag(
        "watch",
        "Shows it again whenever it changes, until Ctrl-C; with `-o json` one document a line for each change",
    )
    .short('w')
}

/// Shows what `look` finds; with `--watch` again whenever it finds something else.
///
/// # Errors
/// Those of `look` and `show`; with `--watch` also [`Failure::Interrupted`] after Ctrl-C.
pub(crate) async fn shown(
    cx: &Cx,
    matches: &ArgMatches,
    look: impl AsyncFn() -> Outcome<Value>,
    show: impl Fn(&Value) -> Outcome<()>,
) -> Outcome<()> {
    if !has(matches, "watch") {
        return show(&look().await?);
    }
    let news = Notify::new();
    tokio::select! {
        end = changes(cx, look, show, &news) => end,
        () = listen(cx, &news) => Ok(()),
        () = reader_gone() => Err(Failure::Closed),
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    }
}

async fn changes(
    cx: &Cx,
    look: impl AsyncFn() -> Outcome<Value>,
    show: impl Fn(&Value) -> Outcome<()>,
    news: &Notify,
) -> Outcome<()> {
    let mut last: Option<Value> = None;
    loop {
        let found = look().await?;
        if last.as_ref() != Some(&found) {
            if cx.out.json() {
                cx.out.compact(&found)?;
            } else {
                if last.is_some() {
                    cx.out.line("")?;
                }
                show(&found)?;
            }
            last = Some(found);
        }
        tokio::select! {
            () = news.notified() => {}
            () = sleep(EVERY) => {}
        }
    }
}

/// Notes each event of the gateway in `news`. Never ends: without events, the gateway is only asked now and then.
async fn listen(cx: &Cx, news: &Notify) {
    let mut events = Events::default();
    let heard = |bytes: &[u8]| {
        if !events.take(bytes).is_empty() {
            news.notify_one();
        }
        Ok(())
    };
    let _ = cx.client.stream("/admin/events", heard).await;
    pending::<()>().await;
}
