//! Project chores: `cargo xtask gen [--check]` writes the generated reference pages, `cargo xtask tidy` checks the
//! rules that no compiler knows, `cargo xtask tidy --figures` prints how the code stands to them, `cargo xtask image PROGRAM FILE` writes the gateway's container image.
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command for people at a terminal")]

mod generate;
mod image;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let result = match args[..] {
        ["gen"] => generate::write(&root),
        ["gen", "--check"] => generate::check(&root),
        ["tidy"] => tidy::run(&root),
        ["tidy", "--figures"] => tidy::figures(&root),
        ["image", program, archive] => image::write(Path::new(program), Path::new(archive)),
        _ => Err(anyhow::anyhow!("usage: cargo xtask gen [--check] | tidy [--figures] | image PROGRAM FILE")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
