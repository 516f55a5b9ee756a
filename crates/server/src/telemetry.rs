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
use tracing_subscriber::EnvFilter;

/// Blocks of the access log that wait for the writer at most; of each data-plane thread there are two a second.
const BLOCKS: usize = 64;
/// How long the last lines may take at the end.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn init(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.rust_log).context("RUST_LOG can't be read")?;
    // At `debug` these write request bodies into the log, environments with secrets included.
    let filter = ["bollard=info", "hyper=info", "hyper_util=info", "sqlx=info"]
        .into_iter()
        .filter_map(|quiet| quiet.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
    }
    Ok(())
}

/// The thread that writes the access log.
pub(crate) struct AccessWriter(JoinHandle<()>);

/// The access log, if `RUST_LOG` lets any of it through.
///
/// # Errors
/// No thread can be started.
pub(crate) fn access(settings: &Settings) -> anyhow::Result<Option<(AccessLog, AccessWriter)>> {
    if !tracing::enabled!(target: "gantry::access", Level::WARN) {
        return Ok(None);
    }
    let (to, blocks) = mpsc::sync_channel::<Vec<u8>>(BLOCKS);
    let write = move || {
        for block in blocks {
            // Whole lines at once, between those of others. Where nobody reads the log, there is nobody to tell.
            let _ = std::io::stderr().lock().write_all(&block);
        }
    };
    let writer = std::thread::Builder::new().name("access-log".to_owned()).spawn(write);
    let log = AccessLog {
        format: match settings.log_format {
            LogFormat::Json => AccessFormat::Json,
            LogFormat::Text => AccessFormat::Text,
        },
        failures_only: !(settings.access_log && tracing::enabled!(target: "gantry::access", Level::INFO)),
        to,
        dropped: Arc::default(),
    };
    Ok(Some((log, AccessWriter(writer.context("can't start a thread")?))))
}

impl AccessWriter {
    /// Waits for the last lines, once nobody makes more.
    pub(crate) fn finish(self) {
        let end = Instant::now() + PATIENCE;
        while !self.0.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
