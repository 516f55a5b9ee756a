//! The simulator as a program of its own, for tests that need a process or an image.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    let mut args: Vec<String> = words.collect();
    match gantry_sim::invoked_as(&name) {
        Some(flavour) => {
            args.splice(0..0, ["--flavour".to_owned(), flavour.name().to_owned()]);
        }
        None if args.first().is_some_and(|word| word == "engine-sim") => {
            args.remove(0);
        }
        None => {}
    }
    ExitCode::from(gantry_sim::run(args).await as u8)
}
