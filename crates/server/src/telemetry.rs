//! The log: text for people, JSON for programs, on standard error.

use std::io::IsTerminal;

use anyhow::Context;
use gantry_settings::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;

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
