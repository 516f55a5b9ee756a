//! `gantry-bench` measures what the gateway costs, as ratios to nginx on the same machine in the same run, how fast its
//! usage endpoints are on many rows, and how fast it exports and verifies packages.
//!
//! Contains a mock engine, a load generator and the comparison that starts and measures the proxies. It knows only the
//! gateway's binary and its HTTP API. Linux only: CPU and memory come from `/proc`.

use std::{
    io::{Write as _, stderr, stdout},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use tokio::net::TcpListener;

use crate::{
    load::{Pace, Window},
    shot::{Ask, Shot},
};

mod admin;
mod child;
mod compare;
mod figure;
mod gateway;
mod haproxy;
mod http_client;
mod instructions;
mod limits;
mod load;
mod mock;
mod nginx;
mod packages;
mod phases;
mod procfs;
mod reconcile;
mod reply;
mod report;
mod shot;
mod soak;
mod stats;
mod steal;
mod without_events;

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a mock engine and print its address.
    Mock {
        /// Loopback address; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Load one server and print the figures as JSON.
    Load(LoadArgs),
    /// Measure the gateway against nginx and write the figures.
    Compare(compare::Options),
    /// Measure what limits of keys cost, in process and through Redis.
    Limits(limits::Options),
    /// Measure what it costs to reconcile many models, with simulated engines in Docker.
    Reconcile(reconcile::Options),
    /// Load one gateway for an hour and measure whether its memory stays flat.
    Soak(soak::Options),
    /// Measure the usage endpoints on a database that `usage_fill` made.
    Admin(admin::Options),
    /// Measure exports, their verification and what they cost the data plane.
    Packages(packages::Options),
}

#[derive(clap::Args)]
struct LoadArgs {
    /// The server to load.
    #[arg(long)]
    target: SocketAddr,
    /// API key, sent as a bearer token.
    #[arg(long, default_value = "none")]
    key: String,
    /// Number of connections of a closed loop.
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// Fixed number of requests per second instead.
    #[arg(long, conflicts_with = "connections")]
    rate: Option<f64>,
    /// Number of concurrent streams instead.
    #[arg(long, conflicts_with_all = ["connections", "rate"])]
    streams: Option<u32>,
    /// Request body of a unary load, in bytes.
    #[arg(long, default_value_t = 200)]
    body_bytes: usize,
    /// Content chunks of a stream.
    #[arg(long, default_value_t = 100)]
    chunks: u64,
    /// Milliseconds between the chunks of a stream.
    #[arg(long, default_value_t = 50)]
    interval_ms: u64,
    /// Seconds before the window that is measured.
    #[arg(long, default_value_t = 0.5)]
    warm_up_s: f64,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Mock { listen } => run_mock(listen).await,
        Command::Load(args) => run_load(args).await,
        Command::Compare(options) => Box::pin(compare::run(options)).await,
        Command::Limits(options) => Box::pin(limits::run(options)).await,
        Command::Reconcile(options) => Box::pin(reconcile::run(options)).await,
        Command::Soak(options) => Box::pin(soak::run(options)).await,
        Command::Admin(options) => Box::pin(admin::run(options)).await,
        Command::Packages(options) => Box::pin(packages::run(options)).await,
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    // Prints the chain of causes without a backtrace. If standard error is closed, the message is lost.
    writeln!(stderr(), "error: {error:#}").ok();
    ExitCode::FAILURE
}

/// Prints a line for the caller.
fn say(text: &str) -> Result<()> {
    Ok(writeln!(stdout(), "{text}")?)
}

async fn run_mock(listen: SocketAddr) -> Result<()> {
    ensure!(listen.ip().is_loopback(), "the mock serves only loopback addresses, not `{listen}`");
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on `{listen}`"))?;
    writeln!(stdout(), "{}", listener.local_addr()?)?;
    mock::serve(listener).await
}

async fn run_load(args: LoadArgs) -> Result<()> {
    ensure!(args.target.ip().is_loopback(), "only loopback addresses may be loaded, not `{}`", args.target);
    let interval = Duration::from_millis(args.interval_ms);
    let stream_life = interval * u32::try_from(args.chunks).context("too many chunks")?;
    let (ask, pace) = match (args.streams, args.rate) {
        (Some(n_connections), _) => (
            Ask::Stream { n_chunks: args.chunks, interval },
            Pace::Closed { n_connections, ramp: Duration::from_secs_f64(args.warm_up_s) },
        ),
        (None, Some(rate_per_s)) => (Ask::Unary { body_bytes: args.body_bytes }, Pace::Open { rate_per_s }),
        (None, None) => (
            Ask::Unary { body_bytes: args.body_bytes },
            Pace::Closed { n_connections: args.connections, ramp: Duration::ZERO },
        ),
    };
    let window = Window {
        warm_up: Duration::from_secs_f64(args.warm_up_s),
        measured: Duration::from_secs_f64(args.seconds),
        drain: Duration::from_secs(10) + if args.streams.is_some() { stream_life } else { Duration::ZERO },
    };
    let (outcome, _) = load::run(Shot::new(args.target, &args.key, ask), pace, window, || Ok(())).await?;
    writeln!(stdout(), "{}", serde_json::to_string_pretty(&outcome)?)?;
    Ok(())
}
