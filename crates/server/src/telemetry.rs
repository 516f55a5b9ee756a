//! The log: text for people, JSON for programs, on standard error.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt::Write,
    io::{self, IsTerminal},
    os::fd::AsFd,
    panic::PanicHookInfo,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Context;
use gantry_dataplane::access::{AccessFormat, AccessLog};
use gantry_domain::Clock;
use gantry_settings::{LogFormat, Settings};
use serde_json::json;
use tracing::Level;
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::outlet::Outlet;

/// Most blocks of the access log that may wait for the writer. Each data-plane thread sends two blocks a second.
const BLOCKS: usize = 64;
/// Longest wait at shutdown until the log has the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens the log, which has panics too. Starts a thread, unless the log is a file.
///
/// # Errors
/// `RUST_LOG` can't be read, or the thread can't be started.
pub(crate) fn init(settings: &Settings) -> anyhow::Result<Arc<Outlet>> {
    let filter = EnvFilter::try_new(&settings.logging.rust_log).context("RUST_LOG can't be read")?;
    let quiet = filter_fn(|it| *it.level() <= Level::INFO || !is_talkative(it.target()))
        // Only the level hint of the other filter, from `RUST_LOG`, counts.
        .with_max_level_hint(LevelFilter::TRACE);
    let told = match settings.logging.log_format {
        LogFormat::Json => dropped_as_json,
        LogFormat::Text => dropped_as_text,
    };
    let outlet = Outlet::open(io::stderr().as_fd(), told).context("can't open the log")?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Arc::clone(&outlet));
    match settings.logging.log_format {
        LogFormat::Json => log.json().flatten_event(true).finish().with(quiet).init(),
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).finish().with(quiet).init(),
    }
    // The standard hook waits for the reader of standard error.
    let panics = Arc::clone(&outlet);
    std::panic::set_hook(Box::new(move |panic| panics.put(panicked(panic).as_bytes())));
    Ok(outlet)
}

/// Returns what the standard hook prints.
fn panicked(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let mut text = format!("\nthread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        // Writing to a String can't fail.
        let _ = writeln!(text, "stack backtrace:\n{trace}");
    }
    text
}

const DROPPED: &str = "lines of the log were dropped because nobody read them or its disk was full";

fn dropped_as_text(n: u64) -> String {
    format!("{}  WARN gantry::log: {n} {DROPPED}\n", Clock::default().now().rfc3339())
}

/// With the keys that `tracing` gives events.
fn dropped_as_json(n: u64) -> String {
    let line = json!({
        "timestamp": Clock::default().now().rfc3339(), "level": "WARN", "message": format!("{n} {DROPPED}"), "lines": n,
        "target": "gantry::log",
    });
    format!("{line}\n")
}

/// Returns a line for people in the form of the log, for programs that read all that the gateway prints.
pub(crate) fn json_line(message: &str) -> String {
    let now = Clock::default().now().rfc3339();
    json!({ "timestamp": now, "level": "INFO", "message": message, "target": "gantry" }).to_string()
}

/// Formats an error with one line for each cause.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let mut text = format!("gantry: {error}\n");
    for cause in error.chain().skip(1) {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  because: {cause}");
    }
    text
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
pub(crate) fn access(
    settings: &Settings,
    outlet: &Arc<Outlet>,
) -> anyhow::Result<Option<(AccessLog, AccessWriter)>> {
    if !tracing::enabled!(target: "gantry::access", Level::WARN) {
        return Ok(None);
    }
    let (to, blocks) = mpsc::sync_channel::<Vec<u8>>(BLOCKS);
    let outlet = Arc::clone(outlet);
    let write = move || {
        for block in blocks {
            // Waits if nobody reads, so that the data plane drops the blocks behind this one and counts their lines.
            outlet.put_when_there_is_room(&block);
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
    /// Waits until the log has the last lines, after their last sender is gone.
    pub(crate) fn finish(self) {
        let end = Instant::now() + PATIENCE;
        while !self.0.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
