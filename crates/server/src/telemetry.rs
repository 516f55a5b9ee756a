//! The log: text for people, JSON for programs, on standard error.

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Context;
use gantry_dataplane::access::{AccessFormat, AccessLog};
use gantry_settings::{LogFormat, Settings};
use tracing::Level;
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Most blocks of the access log that may wait for the writer. Each data-plane thread sends two blocks a second.
const BLOCKS: usize = 64;
/// Longest wait at shutdown until the last lines are written.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn init(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.logging.rust_log).context("RUST_LOG can't be read")?;
    let quiet = filter_fn(|it| *it.level() <= Level::INFO || !is_talkative(it.target()))
        // Only the level hint of the other filter, from `RUST_LOG`, counts.
        .with_max_level_hint(LevelFilter::TRACE);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.logging.log_format {
        LogFormat::Json => log.json().flatten_event(true).finish().with(quiet).init(),
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).finish().with(quiet).init(),
    }
    Ok(())
}

/// Returns whether a library writes request bodies into the log below `info`, including environments with secrets. No
/// setting enables these lines.
fn is_talkative(target: &str) -> bool {
    ["bollard", "hyper", "hyper_util", "sqlx"]
        .iter()
        .any(|name| target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")))
}

/// The thread that writes the access log.
pub(crate) struct AccessWriter(JoinHandle<()>);

/// Opens the access log, if `RUST_LOG` lets any of its lines through.
///
/// # Errors
/// The writer's thread can't be started.
pub(crate) fn access(settings: &Settings) -> anyhow::Result<Option<(AccessLog, AccessWriter)>> {
    if !tracing::enabled!(target: "gantry::access", Level::WARN) {
        return Ok(None);
    }
    let (to, blocks) = mpsc::sync_channel::<Vec<u8>>(BLOCKS);
    let write = move || {
        for block in blocks {
            // Written as whole lines, so that they do not mix with lines of the other log. An error is ignored: if
            // standard error fails, it can't be reported anywhere.
            let _ = std::io::stderr().lock().write_all(&block);
        }
    };
    let writer = std::thread::Builder::new().name("access-log".to_owned()).spawn(write);
    let log = AccessLog {
        format: match settings.logging.log_format {
            LogFormat::Json => AccessFormat::Json,
            LogFormat::Text => AccessFormat::Text,
        },
        failures_only: !(settings.logging.access_log
            && tracing::enabled!(target: "gantry::access", Level::INFO)),
        to,
        dropped: Arc::default(),
    };
    Ok(Some((log, AccessWriter(writer.context("can't start a thread")?))))
}

impl AccessWriter {
    /// Waits until the last lines are written, after their last sender is gone.
    pub(crate) fn finish(self) {
        let end = Instant::now() + PATIENCE;
        while !self.0.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
