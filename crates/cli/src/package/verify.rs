//! `package verify`: whether a package is whole, and who signed it.

use std::{
    io,
    sync::{atomic::Ordering::Relaxed, mpsc},
    time::{Duration, Instant},
};

use clap::{ArgMatches, Command};
use gantry_package::{
    manifest::FileEntry,
    package::Package,
    sign::{Signature, SignatureError},
    verify::{Problem, Progress as Read, verify},
};
use serde_json::{Value, json};

use super::{dir, json, keys::public_key, open};
use crate::{
    exit::{Exit, Failure, Outcome},
    options::{many, option, text, texts},
    output::Out,
    progress::Progress,
    text::{bytes, clean},
};

/// How often the progress is shown.
const TICK: Duration = Duration::from_millis(200);

pub(super) fn command() -> Command {
    Command::new("verify")
        .about("Checks that a package is whole, and who signed it")
        .args([
            dir(),
            option("key", "KEY", "The public key that must have signed the package: its file, or its 56 characters"),
            many(
                "base",
                "DIR",
                "The package that this one is the difference to: the files that are there are checked too. If it is a difference \
                 itself, name its base behind it",
            ),
            json(),
        ])
        .after_help(
            "Without --key the files are compared with the manifest, but anybody may have made both. The exit code is 0 if \
             the package is whole, 9 if it is damaged or its signature does not hold, 5 if there is no package, and 1 if \
             it can't be read.",
        )
}

/// What is known of a package's origin.
struct Origin {
    /// `None` if the package is not signed.
    key_id: Option<String>,
    /// What the signature says; `None` if it was not verified.
    comment: Option<String>,
}

impl Origin {
    /// Verifies the signature, if a key was given.
    fn of(package: &Package, key: Option<&str>) -> Outcome<Self> {
        let key = key.map(public_key).transpose()?;
        let refused = |error: SignatureError| match error {
            SignatureError::Unreadable(_) | SignatureError::Manifest(_) => Failure::Failed(error.to_string()),
            _ => Failure::Damaged(error.to_string()),
        };
        let signature = Signature::read(package.dir()).map_err(refused)?;
        let comment = match (&signature, &key) {
            (_, None) => None,
            (None, Some(_)) => return Err(refused(SignatureError::Missing)),
            (Some(it), Some(key)) => Some(it.verify_package(package, key).map_err(refused)?),
        };
        Ok(Self { key_id: signature.map(|it| it.key_id().to_string()), comment })
    }

    fn words(&self) -> String {
        match (&self.key_id, &self.comment) {
            (Some(id), Some(comment)) => format!("signed by {id} ({})", clean(comment)),
            (Some(id), None) => {
                format!("origin not proven: --key was not given, so nobody checked the signature by {id}")
            }
            (None, _) => "origin not proven: the package is not signed".to_owned(),
        }
    }

    fn json(&self) -> Value {
        json!({ "verified": self.comment.is_some(), "key_id": self.key_id, "comment": self.comment })
    }
}

pub(super) fn run(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    let name = text(matches, "DIR").unwrap_or_default();
    let package = open(name, &texts(matches, "base"))?;
    // If the signature does not hold, the manifest says nothing about the files.
    let origin = Origin::of(&package, text(matches, "key"))?;
    let problems = compare(&package, out)
        .map_err(|error| Failure::Failed(format!("can't read {}: {error}", clean(name))))?;
    report(&package, &origin, &problems, out)
}

/// Compares the files with the manifest on all CPUs, and shows how far that is.
fn compare(package: &Package, out: &Out) -> io::Result<Vec<Problem>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (read, start) = (Read::default(), Instant::now());
    let total = checked(package).fold(0, |sum, file| u64::saturating_add(sum, file.size));
    // They are read a second time, for their own sums.
    let parts = package.manifest().parts.as_ref().map_or(0, |_| package.manifest().parts_size());
    let total = total.saturating_add(parts);
    let mut progress = Progress::new(out);
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let work = scope.spawn(|| {
            let problems = verify(package, threads, &read);
            drop(done);
            problems
        });
        while ended.recv_timeout(TICK) == Err::<(), _>(mpsc::RecvTimeoutError::Timeout) {
            let n_read = read.bytes.load(Relaxed);
            progress.show("", &standing(n_read, total, start.elapsed()), Some(part(n_read, total)));
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Returns the files that are compared: those in a base only if the base was given.
fn checked(package: &Package) -> impl Iterator<Item = &FileEntry> {
    package.manifest().files.values().filter(|it| !it.in_base || package.base().is_some())
}

fn part(n: u64, total: u64) -> f64 {
    if total == 0 { 1.0 } else { n as f64 / total as f64 }
}

/// `14 s left, 3.1 GiB of 20.1 GiB, 1.2 GiB/s`: a narrow terminal cuts off the end.
fn standing(n: u64, total: u64, elapsed: Duration) -> String {
    let speed = n as f64 / elapsed.as_secs_f64().max(0.001);
    let left = if speed > 0.0 {
        format!("{:.0} s left, ", (total.saturating_sub(n) as f64 / speed).ceil())
    } else {
        String::new()
    };
    format!("{left}{} of {}, {}/s", bytes(n), bytes(total), bytes(speed as u64))
}

fn report(package: &Package, origin: &Origin, problems: &[Problem], out: &Out) -> Outcome<()> {
    let manifest = package.manifest();
    let files = checked(package).count();
    let size = checked(package).fold(0, |sum, file| u64::saturating_add(sum, file.size));
    let unchecked = manifest.files.len() - files;
    let (damage, litter): (Vec<&Problem>, Vec<&Problem>) = problems.iter().partition(|it| it.is_damage());
    let texts = |of: &[&Problem]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
    let value = json!({
        "whole": damage.is_empty(),
        "package": manifest.id,
        "files": files,
        "bytes": size,
        "base": manifest.base.as_ref().map(|it| &it.id),
        "unchecked_files_in_base": unchecked,
        "signature": origin.json(),
        "problems": texts(&damage),
        "litter": texts(&litter),
    });
    out.either(&value, || {
        for problem in problems {
            out.line(&clean(&problem.to_string()))?;
        }
        if damage.is_empty() {
            out.line(&format!("verified: {files} files, {}, {}", bytes(size), origin.words()))?;
        }
        Ok(())
    })?;
    if let (1.., Some(base)) = (unchecked, &manifest.base) {
        out.warn(&format!(
            "{unchecked} files are in the package {} and were not checked: give --base",
            clean(&base.id)
        ));
    }
    if damage.is_empty() {
        return Ok(());
    }
    out.note(&format!("gantry: the package is damaged; problems: {}", damage.len()));
    Err(Failure::Told(Exit::Damaged))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standing_has_size_speed_and_time_left() {
        let (gib, ten) = (1 << 30, Duration::from_secs(10));
        assert_eq!(standing(5 * gib, 20 * gib, ten), "30 s left, 5.0 GiB of 20.0 GiB, 512.0 MiB/s");
        assert_eq!(standing(0, gib, ten), "0 bytes of 1.0 GiB, 0 bytes/s");
    }
}
