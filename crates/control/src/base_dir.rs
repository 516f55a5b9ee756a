//! The models base directory that an owner chose: read from the database at the start, and again when another gateway on
//! the same database may have changed it.

use std::path::{Path, PathBuf};

use gantry_domain::models_dir::{Homes, ModelsDirRules};
use gantry_store::{Store, StoreResult};
use tracing::{info, warn};

use crate::Control;

/// Returns the directory that counts now: the chosen one, as long as the rules of this gateway allow it, else that of
/// `MODELS_DIR`. A chosen directory that does not exist stays chosen: a disk that is not mounted yet must not make
/// models appear to be elsewhere.
pub async fn load(store: &Store, rules: &ModelsDirRules) -> StoreResult<PathBuf> {
    let chosen = store.read_quick().await?.models_dir().await?;
    let is_chosen = chosen.is_some();
    let (dir, is_there) = resolve(chosen, rules).await;
    if !is_there {
        warn!(dir = %dir.display(), "the models base directory is not there");
    } else if is_chosen {
        info!(dir = %dir.display(), "the models base directory is the one that an owner chose");
    }
    Ok(dir)
}

/// Returns the directory that counts now, and whether it exists.
async fn resolve(chosen: Option<PathBuf>, rules: &ModelsDirRules) -> (PathBuf, bool) {
    let dir = chosen.unwrap_or_else(|| rules.configured.clone());
    let wanted = dir.clone();
    let looked = tokio::task::spawn_blocking(move || (real(&wanted), wanted.is_dir())).await;
    let (real, is_there) = looked.unwrap_or_else(|_| (dir.clone(), false));
    match rules.check(&real) {
        Ok(()) => (dir, is_there),
        Err(why) => {
            warn!(dir = %dir.display(), %why, "the chosen models base directory is not allowed; MODELS_DIR is used");
            (rules.configured.clone(), true)
        }
    }
}

/// Resolves the links in a directory's path. If the directory does not exist (yet), returns the path as it is.
pub fn real(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// Returns the home directories in this machine's list of users (passwd(5)). Blocks.
pub fn homes() -> Homes {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut homes = Homes {
        own: std::env::home_dir().map(|it| real(&it)).filter(|it| it.parent().is_some()),
        others: Vec::new(),
    };
    let own = rustix::process::geteuid().as_raw().to_string();
    for line in list.lines() {
        let mut fields = line.split(':').skip(2);
        let (Some(uid), Some(home)) = (fields.next(), fields.nth(2)) else { continue };
        let home = real(Path::new(home));
        // Services without a home have the root directory as theirs.
        if home.parent().is_none() || !home.is_absolute() {
            continue;
        }
        if uid == own {
            homes.own.get_or_insert(home);
        } else if homes.own.as_ref() != Some(&home) {
            homes.others.push(home);
        }
    }
    homes
}

/// The directory that an owner chose, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice(Option<PathBuf>);

/// Takes over a directory that was chosen on another gateway. `last` is the choice that was seen last.
pub(crate) async fn follow(control: &Control, last: &mut Option<Choice>) -> StoreResult<()> {
    let choice = Choice(control.store.read_quick().await?.models_dir().await?);
    if last.as_ref() != Some(&choice) {
        let (dir, _) = resolve(choice.0.clone(), &control.config.models_dir_rules).await;
        *last = Some(choice);
        let before = control.config.models_dir.set(&dir);
        if *before != *dir {
            info!(from = %before.display(), to = %dir.display(), "models base directory, chosen on another gateway");
        }
    }
    Ok(())
}
