//! Finds out which version of an engine an image holds, as far as its reference or label shows it.

use std::fmt;

use crate::model::{
    EngineKind,
    fields::{Version, llamacpp_builds as builds},
};

/// Numbers up to this one are not builds of llama.cpp: builds made without the history of their sources call themselves
/// 0 or 1, and numbers in tags also name GPUs.
const LAST_NO_BUILD: u32 = 1000;
/// A number from here on at the beginning of a tag, without a `v`, is a CUDA version or a year.
const FIRST_OF_OTHERS: u32 = 10;

/// A version of one of the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineVersion {
    Known(EngineKind, Version),
    /// The version is not known. It is treated as the newest that the field table describes.
    Unknown(EngineKind),
}

impl EngineVersion {
    /// Reads a tag or a label: `v0.32.0`, `0.10.2+cpu`, `server-cuda-b10731`, `b11434`.
    ///
    /// A word with a `v` comes first, wherever it stands. Without one, three numbers are a version of vLLM only at the
    /// beginning or behind `vllm`, and two numbers never are: tags also name the versions of CUDA, `ROCm` and Python
    /// (`cuda-12.8.1-v0.10.0`, `cu12.4`), and images inherit the label of the Ubuntu image that they are built from
    /// (`22.04`). Small numbers are not builds of llama.cpp but GPUs (`b200`).
    pub fn parse(engine: EngineKind, text: &str) -> Self {
        let found = match engine {
            EngineKind::Vllm => {
                let words = || text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '.'));
                let marked = || words().filter_map(|it| it.strip_prefix('v'));
                let before = std::iter::once("vllm").chain(words());
                let bare = |(before, word)| (before == "vllm").then(|| release(word)).flatten();
                marked()
                    .find_map(release)
                    .or_else(|| marked().find_map(pair))
                    .or_else(|| before.zip(words()).find_map(bare).filter(|it| it[0] < FIRST_OF_OTHERS))
            }
            EngineKind::Llamacpp => text
                .split(|it: char| !it.is_ascii_alphanumeric())
                .find_map(|word| word.strip_prefix('b')?.parse().ok().filter(|it| *it > LAST_NO_BUILD))
                .map(|build| [build, 0, 0]),
        };
        found.map_or(Self::Unknown(engine), |version| Self::Known(engine, version))
    }

    /// Reads the tag of an image reference. A digest does not show the version.
    pub fn of_image(engine: EngineKind, reference: &str) -> Self {
        let name = reference.split('@').next().unwrap_or(reference);
        match name.rsplit('/').next().and_then(|last| last.split_once(':')) {
            Some((_, tag)) => Self::parse(engine, tag),
            None => Self::Unknown(engine),
        }
    }

    /// Returns what to run in an image to learn its version, the most reliable command first: entry point (`None`: the
    /// image's own) and arguments. The output of each goes to [`Self::of_output`].
    pub fn questions(engine: EngineKind) -> [Question; 2] {
        match engine {
            EngineKind::Vllm => {
                [(Some(&["vllm"]), &["--version"]), (Some(&["vllm"]), &["serve", "--help=all"])]
            }
            EngineKind::Llamacpp => [(None, &["--version"]), (None, &["--help"])],
        }
    }

    /// Reads what `--version` printed, or infers from the options in `--help` the oldest version that has all of them.
    pub fn of_output(engine: EngineKind, text: &str) -> Self {
        let stated = match engine {
            // Warnings of libraries may be printed before the version.
            EngineKind::Vllm => text.lines().rev().find_map(|it| release(it.trim())),
            EngineKind::Llamacpp => text.lines().find_map(build),
        };
        let version = stated.or_else(|| {
            let has = |flag: &str| text.split([' ', ',', '\n', '[', '=']).any(|it| it == flag);
            steps(engine).iter().find(|(flag, _)| has(flag)).map(|it| it.1)
        });
        version.map_or(Self::Unknown(engine), |version| Self::Known(engine, version))
    }

    /// Returns the version as a number that the field table can be compared with.
    pub fn number(self) -> Version {
        match self {
            Self::Known(_, version) => version,
            Self::Unknown(EngineKind::Vllm) => [0, 32, 0],
            Self::Unknown(EngineKind::Llamacpp) => [11434, 0, 0],
        }
    }
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(EngineKind::Vllm, [major, minor, patch]) => write!(f, "{major}.{minor}.{patch}"),
            Self::Known(EngineKind::Llamacpp, [build, ..]) => write!(f, "b{build}"),
            Self::Unknown(_) => f.write_str("unknown"),
        }
    }
}

/// Entry point and arguments.
pub type Question = (Option<&'static [&'static str]>, &'static [&'static str]);

/// Options by the first version that has them, newest first.
fn steps(engine: EngineKind) -> &'static [(&'static str, Version)] {
    match engine {
        EngineKind::Vllm => &[
            ("--max-num-queued-reqs", [0, 29, 0]),
            ("--shutdown-timeout", [0, 18, 0]),
            ("--attention-backend", [0, 13, 0]),
            ("--cudagraph-capture-sizes", [0, 11, 1]),
            ("--kv-cache-memory-bytes", [0, 10, 2]),
            ("--swap-space", [0, 8, 0]),
        ],
        EngineKind::Llamacpp => builds::OPTIONS,
    }
}

/// Reads `0.32.0`, `v0.10.2` or `0.11.1rc2.dev12`: three numbers at the beginning of a word.
fn release(word: &str) -> Option<Version> {
    let mut parts = word.strip_prefix('v').unwrap_or(word).splitn(3, '.');
    let (major, minor, rest) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    Some([major, minor, rest[..end].parse().ok()?])
}

fn pair(word: &str) -> Option<Version> {
    let (major, minor) = word.split_once('.')?;
    Some([major.parse().ok()?, minor.parse().ok()?, 0])
}

/// Reads `version: 5038 (193c3e03)`, or, since 2026, `version: 0.6.0-dev (build 11434, commit 193c3e03)`.
fn build(line: &str) -> Option<Version> {
    let rest = line.trim().strip_prefix("version:")?.trim();
    let number = match rest.split_once("build ") {
        Some((_, rest)) => rest,
        None => rest,
    };
    let end = number.find(|it: char| !it.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok().filter(|it| *it > LAST_NO_BUILD).map(|it| [it, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_both_engines_are_understood() {
        let of = |engine, reference| EngineVersion::of_image(engine, reference).to_string();
        assert_eq!(of(EngineKind::Vllm, "vllm/vllm-openai:v0.24.0-cu129"), "0.24.0");
        assert_eq!(of(EngineKind::Vllm, "registry:5000/vllm/vllm-openai:latest"), "unknown");
        assert_eq!(of(EngineKind::Vllm, "registry:5000/vllm"), "unknown");
        assert_eq!(of(EngineKind::Llamacpp, "ghcr.io/ggml-org/llama.cpp:server-cuda-b10731"), "b10731");
        assert_eq!(of(EngineKind::Llamacpp, "ghcr.io/ggml-org/llama.cpp:server"), "unknown");
        assert_eq!(of(EngineKind::Llamacpp, "x:b11434@sha256:00"), "b11434");
        assert_eq!(of(EngineKind::Vllm, "x:cu12.4-v0.9"), "0.9.0");
        assert_eq!(of(EngineKind::Vllm, "vllm:cuda-12.8.1-v0.10.0"), "0.10.0");
        assert_eq!(of(EngineKind::Vllm, "vllm:v0.10.0-cuda-12.8.1"), "0.10.0");
        assert_eq!(of(EngineKind::Vllm, "vllm:cuda-12.8.1-py3.12.4"), "unknown");
        assert_eq!(of(EngineKind::Vllm, "vllm:12.8.1-devel"), "unknown");
        assert_eq!(of(EngineKind::Vllm, "rocm/vllm:rocm6.4.1_vllm_0.10.0_20250812"), "0.10.0");
        assert_eq!(of(EngineKind::Llamacpp, "llama:server-cuda-b200"), "unknown");
        assert_eq!(of(EngineKind::Llamacpp, "llama:server-b200-b10731"), "b10731");
        assert_eq!(of(EngineKind::Vllm, "x:0.10.2+cpu"), "0.10.2");
        assert_eq!(of(EngineKind::Vllm, "x:0.11.1rc2.dev3"), "0.11.1");
        assert_eq!(of(EngineKind::Vllm, "x:nightly-8f2a0b1c"), "unknown");
    }

    #[test]
    fn the_label_of_the_distribution_is_no_version() {
        for label in ["22.04", "24.04", "12.4", "bookworm"] {
            assert_eq!(EngineVersion::parse(EngineKind::Vllm, label).to_string(), "unknown", "{label}");
            assert_eq!(EngineVersion::parse(EngineKind::Llamacpp, label).to_string(), "unknown", "{label}");
        }
    }

    #[test]
    fn what_engines_print_about_themselves_is_understood() {
        let of = |engine, text| EngineVersion::of_output(engine, text).to_string();
        let llama = |text| of(EngineKind::Llamacpp, text);
        assert_eq!(llama("ggml_cuda_init: found 1\nversion: 7149 (134e6940c)\nbuilt with cc"), "b7149");
        assert_eq!(llama("version: 0.6.0-dev (build 11434, commit unknown)\nbuilt with GNU"), "b11434");
        assert_eq!(llama("version: 1 (unknown)"), "unknown");
        assert_eq!(llama("-lm,   --load-mode MODE   x\n--fit [on|off]\n"), "b10114");
        assert_eq!(llama("-fit,  --fit [on|off]   x\n"), "b7400");
        assert_eq!(llama("sh: not found"), "unknown");
        let vllm = |text| of(EngineKind::Vllm, text);
        assert_eq!(vllm("WARNING 11-21 [x.py:1] Triton\n0.32.0+cpu\n"), "0.32.0");
        assert_eq!(vllm("  --attention-backend X\n  --runner {a}\n"), "0.13.0");
        assert_eq!(vllm("Traceback"), "unknown");
    }
}
