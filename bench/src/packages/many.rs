//! A package with very many small files, as hub caches and data sets have them: what it takes of memory to export, verify
//! and import it, and to restore the database that is in it.

use std::{fs, path::Path};

use anyhow::Result;
use serde::Serialize;

use super::rig::Rig;

/// Files in each folder.
const IN_FOLDER: u32 = 1000;
/// Folder in the models base directory.
const FOLDER: &str = "many";
const NAME: &str = "many";

/// Seconds, and MiB of memory: of the gateway, over what it had before; of `gantry package`, all that it had.
#[derive(Debug, Serialize)]
pub(super) struct Many {
    files: u32,
    pub(super) export_s: f64,
    pub(super) export_extra_mib: f64,
    pub(super) export_again_extra_mib: f64,
    pub(super) verify_s: f64,
    pub(super) verify_peak_mib: f64,
    pub(super) show_peak_mib: f64,
    pub(super) import_s: f64,
    pub(super) import_extra_mib: f64,
    pub(super) restore_s: f64,
    pub(super) restore_extra_mib: f64,
}

impl Many {
    pub(super) async fn run(rig: &mut Rig, files: u32) -> Result<Self> {
        let dir = rig.models().join(FOLDER);
        make(&dir, files)?;
        let (export_s, export_extra_mib) = rig.with_extra_mib(async |it| it.export(NAME, None).await).await?;
        let (_, export_again_extra_mib) = rig.with_extra_mib(async |it| it.export(NAME, None).await).await?;
        let [verify_s, verify_peak_mib] = rig.package_verb("verify", NAME)?;
        let [_, show_peak_mib] = rig.package_verb("show", NAME)?;
        fs::remove_dir_all(&dir)?;
        let (import_s, import_extra_mib) = rig.with_extra_mib(async |it| it.import(NAME).await).await?;
        let (restore_s, restore_extra_mib) = rig.with_extra_mib(async |it| it.restore(NAME).await).await?;
        fs::remove_dir_all(&dir)?;
        fs::remove_dir_all(rig.package(NAME))?;
        Ok(Self {
            files,
            export_s,
            export_extra_mib,
            export_again_extra_mib,
            verify_s,
            verify_peak_mib,
            show_peak_mib,
            import_s,
            import_extra_mib,
            restore_s,
            restore_extra_mib,
        })
    }
}

/// Makes small files with names like those of a hub cache.
fn make(dir: &Path, files: u32) -> Result<()> {
    for n in 0..files {
        let folder = dir.join(format!("{:04}", n / IN_FOLDER));
        if n.is_multiple_of(IN_FOLDER) {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("{n:040x}.json")), format!("{{\"number\":{n}}}"))?;
    }
    Ok(())
}
