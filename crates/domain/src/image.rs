//! Names of container images, as `github.com/distribution/reference` reads them: `[host[:port]/]path[:tag][@digest]`.
//! Also decides which of them models may name.

use crate::model::PerEngine;

/// Repositories of Gantry's engine simulators, for vLLM and for llama.cpp. No registry has them: a simulator's image is
/// built on the machine that runs it, and is never pulled.
pub const SIMULATORS: PerEngine<&str> =
    PerEngine { vllm: "localhost/gantry-engine-sim-vllm", llamacpp: "localhost/gantry-engine-sim-llamacpp" };

/// Whether a reference names one of the [`SIMULATORS`], with any tag. No other image runs as a simulator.
pub fn is_simulator(reference: &str) -> bool {
    SIMULATORS.values().any(|it| *it == repository(reference))
}

/// Returns the reference without tag and digest.
pub fn repository(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    }
}

/// Longest tag of an image, in bytes.
const LONGEST_TAG: usize = 128;

/// Returns the name that an image which is referred to by a digest gets where it comes out of an archive, because archives carry
/// no digests of registries: `a/b:sha256-0f…` for `a/b:1@sha256:0f…`. `None` for a reference without a digest.
pub fn tag_of_digest(reference: &str) -> Option<String> {
    let (_, digest) = reference.split_once('@')?;
    let tag: String = digest.replace(':', "-").chars().take(LONGEST_TAG).collect();
    Some(format!("{}:{tag}", repository(reference)))
}

/// Which images a model may name in `engine_image`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedImages {
    /// The engines' default images. Models may name their repositories with any tag.
    pub defaults: PerEngine<String>,
    /// The simulators of this version of the gateway. Models may name exactly these references.
    pub simulators: PerEngine<String>,
    /// The operator's list (`ENGINE_IMAGE_ALLOWLIST`): a repository, or the beginning of several with `*` at its end.
    pub listed: Vec<String>,
}

impl AllowedImages {
    /// Returns whether a model may name this image.
    pub fn allows(&self, reference: &str) -> bool {
        let repository = repository(reference);
        let listed = |entry: &String| match entry.strip_suffix('*') {
            Some(start) => repository.starts_with(start),
            None => self::repository(entry) == repository,
        };
        is_reference(reference)
            && (self.defaults.values().any(|it| self::repository(it) == repository)
                || self.simulators.values().any(|it| it == reference)
                || self.listed.iter().any(listed))
    }
}

/// Whether `text` is a valid image name, with or without tag and digest.
pub fn is_reference(text: &str) -> bool {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    let (repository, tag) = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    };
    text.len() <= 500 && is_repository(repository) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

/// Whether `text` is a reference, or the beginning of several with a `*` at its end. The beginning may end in the
/// middle of a port.
pub fn is_pattern(text: &str) -> bool {
    let Some(start) = text.strip_suffix('*') else { return is_reference(text) };
    let legal = |it: u8| it.is_ascii_alphanumeric() || b"._-/:[]".contains(&it);
    start.bytes().all(legal) && !start.starts_with(['-', '/', '.', ':']) && !start.contains("//")
}

fn is_repository(text: &str) -> bool {
    let (host, path) = match text.split_once('/') {
        Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), path),
        _ => (None, text),
    };
    host.is_none_or(is_host) && path.split('/').all(is_component)
}

fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let legal = |it: u8| it.is_ascii_alphanumeric() || b".-[]:".contains(&it);
    !name.is_empty()
        && name.bytes().all(legal)
        && !name.starts_with('-')
        && port.is_none_or(|it| it.parse::<u16>().is_ok())
}

fn is_component(text: &str) -> bool {
    let word = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    text.bytes().next().is_some_and(word)
        && text.bytes().last().is_some_and(word)
        && text.bytes().all(|it| word(it) || b"._-".contains(&it))
}

fn is_tag(text: &str) -> bool {
    let word = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    (1..=LONGEST_TAG).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|it| word(it) || b".-".contains(&it))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        is_component(algorithm) && hex.len() >= 32 && hex.bytes().all(|it| it.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_port_is_not_a_tag() {
        assert_eq!(repository("host:5000/a/b:v1@sha256:0"), "host:5000/a/b");
        assert_eq!(repository("host:5000/a/b"), "host:5000/a/b");
        assert_eq!(repository("a:1"), "a");
    }

    #[test]
    fn an_image_with_a_digest_has_a_tag_that_is_made_of_it() {
        let hex = "0f".repeat(32);
        let tag = Some(format!("host:5000/a/b:sha256-{hex}"));
        for reference in ["host:5000/a/b", "host:5000/a/b:1"].map(|it| format!("{it}@sha256:{hex}")) {
            assert_eq!(tag_of_digest(&reference), tag);
        }
        assert!(is_reference(&tag_of_digest(&format!("a@sha512:{}", hex.repeat(2))).unwrap()));
        assert_eq!(tag_of_digest("host:5000/a/b:1"), None);
    }

    #[test]
    fn a_simulator_is_allowed_by_its_exact_name_only() {
        let allowed = AllowedImages {
            defaults: PerEngine {
                vllm: "vllm/vllm-openai:v1".to_owned(),
                llamacpp: "ghcr.io/ggml-org/llama.cpp:b1".to_owned(),
            },
            simulators: SIMULATORS.map(|_, it| format!("{it}:1")),
            listed: vec!["registry.example/team/*".to_owned(), "127.0.0.1:5000/own".to_owned()],
        };
        for good in [
            "vllm/vllm-openai:v2",
            "localhost/gantry-engine-sim-vllm:1",
            "registry.example/team/x:1",
            "127.0.0.1:5000/own:7",
        ] {
            assert!(allowed.allows(good), "{good}");
        }
        for bad in [
            "localhost/gantry-engine-sim-vllm:2",
            "localhost/gantry-engine-sim-evil:1",
            "gantry/engine-sim-vllm:0.32.0",
            "vllm/vllm-openai-evil",
            "registry.example/other",
            "bad image",
        ] {
            assert!(!allowed.allows(bad), "{bad}");
        }
        assert!(is_simulator("localhost/gantry-engine-sim-llamacpp:b1-test"));
        assert!(!is_simulator("gantry/engine-sim-vllm:0.32.0"));
    }

    #[test]
    fn names_are_told_from_what_is_none() {
        let digest = format!("a/b@sha256:{}", "0f".repeat(32));
        for good in [
            "vllm",
            "vllm/vllm-openai:v0.32.0",
            "registry.example:5000/ggml-org/llama.cpp:server-cuda-b11434",
            "localhost/a__b:T_1",
            &digest,
        ] {
            assert!(is_reference(good), "{good}");
        }
        for bad in [
            "",
            "bad image:::",
            "-x",
            "a b",
            "A/b",
            "a//b",
            "a:",
            "a:-1",
            "a@sha256:00",
            "/a",
            "a/",
            "a:b:c",
            "*",
        ] {
            assert!(!is_reference(bad), "{bad}");
        }
        for good in [
            "vllm/vllm-openai",
            "localhost/gantry-engine-sim-*",
            "registry.example/team/*",
            "127.0.0.1:*",
            "*",
        ] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in ["a b", "-x", "a*b", "*a", "//*"] {
            assert!(!is_pattern(bad), "{bad}");
        }
    }
}
