//! Checks of the file system that records need: whether paths stay below the base directory, and how much room there
//! is. These functions block, and are called off the async runtime.

use std::path::Path;

/// Returns the fields whose paths, with links followed, leave `base` or lead nowhere. A file that does not exist yet
/// may come, but not behind a link that leads out.
pub(super) fn outside(base: &Path, paths: &[(&'static str, String)]) -> Vec<&'static str> {
    let Ok(base) = base.canonicalize() else { return Vec::new() };
    let is_outside = |path: &str| match gantry_domain::model::check::relative_path(path) {
        Err(_) => true,
        Ok(()) => !leads_into(&base, &base.join(path)),
    };
    let mut fields: Vec<_> =
        paths.iter().filter(|(_, path)| is_outside(path)).map(|(param, _)| *param).collect();
    fields.dedup();
    fields
}

/// Whether the part of `path` that exists lies in `base`.
fn leads_into(base: &Path, path: &Path) -> bool {
    for part in path.ancestors() {
        match part.canonicalize() {
            Ok(real) => return real.starts_with(base),
            // A link without a target, or in a circle.
            Err(_) if part.is_symlink() => return false,
            Err(_) => {}
        }
    }
    false
}

/// Free and total bytes of the file system that `dir` lies on.
pub(super) fn space(dir: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some((stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_may_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("models");
        std::fs::create_dir_all(base.join("in")).unwrap();
        std::os::unix::fs::symlink("/etc", base.join("out")).unwrap();
        std::os::unix::fs::symlink("in", base.join("alias")).unwrap();
        let first = |path: &str| outside(&base, &[("local_path", path.to_owned())]).first().copied();
        assert_eq!(first("out/passwd"), Some("local_path"));
        assert_eq!(first("../x"), Some("local_path"));
        assert_eq!(first("alias"), None);
        assert_eq!(first("not/there/yet"), None);
        std::os::unix::fs::symlink("/nowhere/at/all", base.join("dangling")).unwrap();
        assert_eq!(first("out/not/there/yet"), Some("local_path"));
        assert_eq!(first("dangling"), Some("local_path"));
    }
}
