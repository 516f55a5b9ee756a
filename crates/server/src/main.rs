//! The `gantry` program: the gateway (`gantry serve`), the engine simulator (`gantry engine-sim`), the supervisor of an
//! engine that is a process (`gantry engine-shim`, started by the gateway only), the client (the other verbs) and small
//! tools.

mod account;
mod activation;
mod adapters;
mod before_upgrade;
mod cli;
mod commands;
mod data_dir;
mod database_wait;
mod demo;
mod deployment;
mod descriptors;
mod door;
mod dump_file;
mod engine_runtime;
mod instance_id;
mod memory_budget;
mod metrics;
mod monitor;
mod notify;
mod otlp;
mod outlet;
mod own_inference;
mod runtime_health;
mod sealing;
mod secrets;
mod serve;
mod shutdown;
mod storage;
mod supervisor;
mod telemetry;
mod ui;
mod wiring;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The supervisor of an engine starts before anything else: it must stay small, and its arguments may not be UTF-8.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|it| it == gantry_runtime::SUPERVISOR_VERB) {
        return ExitCode::from(u8::try_from(gantry_runtime::supervise(words.collect())).unwrap_or(1));
    }
    let mut args = Vec::new();
    for (n, word) in std::env::args_os().enumerate() {
        match word.into_string() {
            Ok(word) => args.push(word),
            Err(word) => {
                let word = word.to_string_lossy();
                return cli::complain(&anyhow::anyhow!("argument {n} (`{word}`) is not UTF-8 text"));
            }
        }
    }
    // The simulator's image starts this binary under the names of the real engines.
    if args.first().and_then(|it| gantry_sim::invoked_as(it)).is_some()
        || args.get(1).is_some_and(|it| it == gantry_sim::VERB)
    {
        return simulate(args);
    }
    match cli::run(args) {
        Ok(code) => code,
        Err(error) => cli::complain(&error),
    }
}

/// The simulator reads its arguments itself, since they are those of the engines.
fn simulate(mut args: Vec<String>) -> ExitCode {
    let flavour = args.first().and_then(|it| gantry_sim::invoked_as(it));
    let rest = match flavour {
        Some(flavour) => {
            let mut rest = vec!["--flavour".to_owned(), flavour.name().to_owned()];
            rest.extend(args.drain(1..));
            rest
        }
        None => args.split_off(2),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return cli::complain(&anyhow::Error::new(error));
        }
    };
    ExitCode::from(u8::try_from(runtime.block_on(gantry_sim::run(rest))).unwrap_or(1))
}
