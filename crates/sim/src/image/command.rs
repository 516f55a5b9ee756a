//! `gantry engine-sim image`: writes or loads the simulator's images.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use clap::Parser;

use super::{ImageError, load_image, write_image};
use crate::args::Env;
use crate::flavour::Flavour;
use crate::server::say;

/// Pack this program into a container image of the engine simulator.
///
/// Loads the image into the Docker engine of `DOCKER_HOST` (default: the local socket).
#[derive(Debug, Parser)]
#[command(name = "gantry engine-sim image")]
struct Options {
    /// `vllm` or `llamacpp`; both if left out.
    #[arg(long)]
    flavour: Option<Flavour>,
    /// Name of the image [default: localhost/gantry-engine-sim-FLAVOUR:VERSION].
    #[arg(long, requires = "flavour")]
    tag: Option<String>,
    /// Write an archive for `docker load` to this file instead of loading it.
    #[arg(long, requires = "flavour")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(args: &[String], env: &Env) -> i32 {
    let words = std::iter::once("gantry engine-sim image").chain(args.iter().map(String::as_str));
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => {
            // Nothing can be done about a closed terminal.
            let _ = error.print();
            return error.exit_code();
        }
    };
    match make(&options, env).await {
        Ok(()) => 0,
        Err(error) => {
            let mut text = format!("engine simulator: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                let _ = write!(text, ": {cause}");
                source = cause.source();
            }
            say(&format!("{text}\n"));
            1
        }
    }
}

async fn make(options: &Options, env: &Env) -> Result<(), ImageError> {
    let exe = std::env::current_exe()?;
    let flavours = options.flavour.map_or_else(|| Flavour::ALL.to_vec(), |flavour| vec![flavour]);
    for flavour in flavours {
        let tag = options.tag.clone().unwrap_or_else(|| flavour.default_tag());
        let line = if let Some(path) = &options.output {
            write_image(&exe, &tag, flavour, BufWriter::new(File::create(path)?))?;
            format!("wrote simulator image {tag} to {}\n", path.display())
        } else {
            let host = env.get("DOCKER_HOST").map(String::as_str);
            format!("loaded simulator image {}\n", load_image(&exe, &tag, flavour, host).await?)
        };
        std::io::stdout().write_all(line.as_bytes())?;
    }
    Ok(())
}
