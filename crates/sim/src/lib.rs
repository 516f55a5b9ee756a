//! `gantry engine-sim`: a simulator of vLLM and llama-server.
//!
//! It answers like either engine (command line, HTTP, logs, exit codes, failures) without a model,
//! so that people and tests can run the gateway where no engine image can be had. It always says
//! that it is a simulator: in its first log line, its help, its `system_fingerprint` and its text.
//!
//! A model path under `/models` must exist, as for the real engines; `/models/simulated` and
//! `/models/simulated.gguf`, names that start with `sim:` and `GANTRY_SIM_ANY_MODEL=1` are exempt.
//! Files are never opened.

// The recorded `/props` object is larger than the `json!` macro can read by default.
#![recursion_limit = "256"]

mod api;
mod args;
mod config;
mod engine;
mod faults;
mod flavour;
mod image;
mod refused;
mod reply;
mod server;
mod startup;
mod text;

/// The command of the program that starts the simulator.
pub const VERB: &str = "engine-sim";

pub use args::{Env, Exit};
pub use config::{Config, Task};
pub use faults::{CrashLog, Faults};
pub use flavour::{Flavour, Version, invoked_as};
pub use image::{ImageError, load_image, write_image};
pub use server::serve;
pub use text::TRAINED_CONTEXT;

/// Runs the simulator with the arguments after `engine-sim`; returns the process exit code.
///
/// `image …` packs the running program into a container image instead. A program started under an
/// engine's name ([`invoked_as`]) passes `--flavour NAME` and then its own arguments.
pub async fn run(args: Vec<String>) -> i32 {
    // Variables that are not valid UTF-8 are not meant for the simulator.
    let text = |it: std::ffi::OsString| it.into_string().ok();
    let env: Env =
        std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect();
    if args.first().is_some_and(|word| word == "image") {
        return image::command::run(args.get(1..).unwrap_or_default(), &env).await;
    }
    match Config::parse(&args, &env) {
        Ok(config) => {
            server::say(&startup::banner(config.flavour, &config.version_text()));
            server::run(config).await
        }
        Err(exit) => {
            server::say("engine simulator (not a real engine): it ends before serving\n");
            let _ = std::io::Write::write_all(&mut std::io::stdout(), exit.stdout.as_bytes());
            server::say(&exit.stderr);
            exit.code
        }
    }
}
