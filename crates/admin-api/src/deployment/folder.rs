//! Folders of packages: inside the folders of `EXPORT_DIRS`, with all links followed.

use std::path::{Component, Path, PathBuf};

use gantry_domain::{ApiError, ErrorCode, deployment::ImportPlan};
use gantry_package::package::{OpenError, Package};

use crate::error::Problem;

/// Returns the folder that `text` names, which need not exist. It is relative to the first export folder, or absolute and
/// inside one of them.
///
/// # Errors
/// 422 `path_not_allowed` if it leaves the export folders.
pub(super) fn new(dirs: &[PathBuf], text: &str, param: &str) -> Result<PathBuf, Problem> {
    let path = Path::new(text);
    let refused = || {
        let message = format!("`{param}` leaves the folders of EXPORT_DIRS, which `gantry settings` prints");
        Problem(ApiError::new(ErrorCode::PathNotAllowed, message).with_param(param))
    };
    if path.components().any(|it| matches!(it, Component::ParentDir)) {
        return Err(refused());
    }
    let inside = |dir: &PathBuf| {
        let dir = dir.canonicalize().ok()?;
        let wanted = dir.join(path);
        let there = wanted.ancestors().find(|it| it.symlink_metadata().is_ok())?;
        let real = there.canonicalize().ok()?;
        // Part by part: joining nothing would add a slash to the name of a file.
        let whole: PathBuf = real.components().chain(wanted.strip_prefix(there).ok()?.components()).collect();
        // A package needs a folder of its own.
        (whole.starts_with(&dir) && whole != dir).then_some(whole)
    };
    dirs.iter().find_map(inside).ok_or_else(refused)
}

/// Returns the folder or file that `text` names, which must be there.
///
/// # Errors
/// Those of [`new`], and 404 if there is nothing.
pub(super) fn existing(dirs: &[PathBuf], text: &str, param: &str) -> Result<PathBuf, Problem> {
    // Several folders may have one of this name: the first one that is there counts.
    let found =
        dirs.iter().filter_map(|dir| new(std::slice::from_ref(dir), text, param).ok()).find(|it| it.exists());
    if let Some(found) = found {
        return Ok(found);
    }
    new(dirs, text, param)?;
    let message =
        format!("there is no `{text}` in the folders of EXPORT_DIRS, which `gantry settings` prints");
    Err(Problem(ApiError::new(ErrorCode::NotFound, message).with_param(param)))
}

/// Opens the package in a folder.
///
/// # Errors
/// 422 if there is none that can be used.
pub(super) fn package(dir: &Path, base: Option<&Path>) -> Result<Package, Problem> {
    let unusable = |param: &str, error: &OpenError| {
        let message = match error {
            // The paths of the host are not for answers.
            OpenError::NoManifest(_) => "it is not a package: it has no manifest.json".to_owned(),
            OpenError::Incomplete(_) => {
                "the export into it has not ended: run the export again to complete it".to_owned()
            }
            OpenError::Io { error, .. } => format!("it can't be read: {}", error.kind()),
            error => error.to_string(),
        };
        Problem::invalid(param, message)
    };
    let package = Package::open(dir).map_err(|error| unusable("output_dir", &error))?;
    let Some(base) = base else { return Ok(package) };
    package.with_base_at(base).map_err(|error| unusable("base_dir", &error))
}

/// Returns the folders of a package and of its base.
///
/// # Errors
/// Those of [`existing`].
pub(super) fn places(
    dirs: &[PathBuf],
    output_dir: &str,
    base_dir: Option<&str>,
) -> Result<(PathBuf, Option<PathBuf>), Problem> {
    let base = base_dir.map(|it| existing(dirs, it, "base_dir")).transpose()?;
    Ok((existing(dirs, output_dir, "output_dir")?, base))
}

/// Says why an import can't do its work.
pub(super) fn impossible(plan: &ImportPlan) -> Problem {
    let message = match (plan.problems.first(), plan.conflicting_files.first()) {
        (Some(problem), _) => problem.clone(),
        (None, Some(file)) => {
            format!(
                "`{file}` is there already with another content: it is left as it is; move it away and import again"
            )
        }
        (None, None) => {
            format!("the weights need {} bytes, and {} are free", plan.new_bytes, plan.available_bytes)
        }
    };
    Problem::invalid("output_dir", message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_packages_stay_in_the_export_folders() {
        let dir = tempfile::tempdir().unwrap();
        let (exports, other) = (dir.path().join("exports"), dir.path().join("other"));
        std::fs::create_dir_all(exports.join("there")).unwrap();
        std::fs::create_dir(&other).unwrap();
        symlink(&other, exports.join("link")).unwrap();
        let dirs = [exports.clone()];
        let real = exports.canonicalize().unwrap();
        assert_eq!(new(&dirs, "new/one", "x").unwrap(), real.join("new/one"));
        assert_eq!(new(&dirs, exports.join("two").to_str().unwrap(), "x").unwrap(), real.join("two"));
        for bad in ["../other", "/etc", "link", "link/x", "there/../../other", "", "."] {
            assert!(new(&dirs, bad, "x").is_err(), "{bad}");
        }
        assert_eq!(existing(&dirs, "there", "x").unwrap().as_os_str(), real.join("there").as_os_str());
        assert_eq!(existing(&dirs, "gone", "x").unwrap_err().0.code, ErrorCode::NotFound);
        assert_eq!(existing(&dirs, "link", "x").unwrap_err().0.code, ErrorCode::PathNotAllowed);
    }
}
