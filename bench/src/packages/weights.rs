//! Weights to export: files of random bytes, and sparse files.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use rand::Rng as _;

/// Number of files of each kind.
const FILES: u64 = 4;
const PIECE: u64 = 1 << 20;
/// Pieces of a sparse file of which one is no hole.
const SPARSE: u64 = 64;
/// Folder in the models base directory.
pub(super) const FOLDER: &str = "weights";

pub(super) struct Weights {
    pub(super) dir: PathBuf,
    /// Bytes of all files, holes included.
    pub(super) bytes: u64,
}

impl Weights {
    /// Makes files with `bytes` of random and of sparse weights below the folder `models`.
    pub(super) fn make(models: &Path, bytes: [u64; 2]) -> Result<Self> {
        let dir = models.join(FOLDER);
        fs::create_dir_all(&dir)?;
        // So that a gateway that looks at the folder takes it for a model.
        fs::write(
            dir.join("config.json"),
            "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\"}",
        )?;
        let [random, sparse] = bytes.map(|it| it.div_ceil(FILES * PIECE));
        let mut piece = vec![0; PIECE as usize];
        for n in 0..FILES {
            for (name, every, pieces) in [("random", 1, random), ("sparse", SPARSE, sparse)] {
                let mut file = File::create(dir.join(format!("{name}-{n}.safetensors")))?;
                file.set_len(pieces * PIECE)?;
                for at in (0..pieces).step_by(every as usize) {
                    rand::rng().fill_bytes(&mut piece);
                    file.seek(SeekFrom::Start(at * PIECE))?;
                    file.write_all(&piece)?;
                }
                file.sync_all()?;
            }
        }
        Ok(Self { dir, bytes: FILES * PIECE * (random + sparse) })
    }
}

/// Drops the files in a folder, and in those in it, from the page cache. What is not on the disk yet is written first.
pub(super) fn forget(dir: &Path) -> Result<()> {
    let line = "sync -f \"$0\"; find \"$0\" -type f -exec dd if={} iflag=nocache count=0 status=none \\;";
    let done = Command::new("sh").args(["-c", line]).arg(dir).status()?;
    ensure!(done.success(), "the page cache could not be emptied");
    Ok(())
}
