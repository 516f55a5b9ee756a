//! The environment of an engine's process. A container begins with none of the gateway's; neither does a process.

use gantry_domain::engine::Launch;
use secrecy::ExposeSecret;

use super::system::{MARK, mark};

/// What an engine gets of the gateway's own environment. Not its settings, some of which are secrets.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "VIRTUAL_ENV",
];
const PASSED_PREFIXES: &[&str] = &["LC_", "CUDA_", "NVIDIA_", "ROCM_", "HIP_", "HSA_", "ROCR_"];

/// What a model's `extra_env` may set. In a container any variable is the container's own affair; here one such as
/// `LD_PRELOAD`, `PYTHONPATH` or `CC` would run a program of the record's choice as the gateway's user.
const ALLOWED_PREFIXES: &[&str] = &[
    "VLLM_",
    "LLAMA_",
    "GGML_",
    "HF_",
    "TRANSFORMERS_",
    "TOKENIZERS_",
    "CUDA_",
    "NVIDIA_",
    "NCCL_",
    "HIP_",
    "ROCR_",
    "HSA_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "KMP_",
    "RAYON_",
    "PYTORCH_",
    "TORCH_",
    "GANTRY_SIM_",
    "LC_",
];
const ALLOWED: &[&str] = &["LANG", "TZ"];
/// Parts of names that lead to files which are loaded or written.
const REFUSED_PARTS: &[&str] = &[
    "PATH",
    "PLUGIN",
    "PRELOAD",
    "INJECTION",
    "LIBRARY",
    "LIB_",
    "_DIR",
    "_FILE",
    "_ROOT",
    "COMPILER",
    "EXTENSION",
    "ENDPOINT",
    "ALLOW_INSECURE",
    "TRUST_REMOTE",
    "CONFIG",
    "TOPO",
];
/// The gateway's own, which stand in the launch too.
const OURS: &[&str] = &[
    "VLLM_API_KEY",
    "LLAMA_API_KEY",
    "HF_HOME",
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "LLAMA_CACHE",
    "LLAMA_ARG_OFFLINE",
    "LLAMA_OFFLINE",
];

/// The variables that a process may take over from the gateway's.
pub(super) fn passed(all: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let passes = |name: &str| PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|it| name.starts_with(it));
    all.into_iter().filter(|(name, _)| passes(name)).collect()
}

/// A variable of the launch that may not be set where engines are processes: a start with it is refused.
pub fn refused_variable(launch: &Launch) -> Option<&str> {
    let allowed = |name: &str| {
        OURS.contains(&name)
            || ALLOWED.contains(&name)
            || (ALLOWED_PREFIXES.iter().any(|it| name.starts_with(it))
                && !REFUSED_PARTS.iter().any(|it| name.contains(it)))
    };
    launch.env.iter().map(|(name, _)| name.as_str()).find(|it| !allowed(it))
}

/// The whole environment of an engine. Here, and in the container's request, secrets leave their wrapping.
///
/// `hides_gpus`: the machine has GPUs, so an engine that is given none must not see them. AMD's libraries heed both
/// variables, which then must agree.
pub(super) fn of(
    launch: &Launch,
    base: &[(String, String)],
    (owner, id): (&str, &str),
    hides_gpus: bool,
) -> Vec<(String, String)> {
    let mut all = base.to_vec();
    let gpus: Vec<String> = launch.gpus.iter().map(u32::to_string).collect();
    if hides_gpus || !gpus.is_empty() {
        all.push(("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
        all.push(("HIP_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
        // So that numbers mean what they mean elsewhere: CUDA's own order is by speed.
        all.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
    }
    all.extend(launch.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())));
    all.push((MARK.to_owned(), mark(owner, id)));
    all
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    fn launch(env: &[&str], gpus: &[u32]) -> Launch {
        Launch {
            image: "x".to_owned(),
            entrypoint: None,
            args: Vec::new(),
            env: env.iter().map(|it| ((*it).to_owned(), SecretString::from("value"))).collect(),
            gpus: gpus.to_vec(),
            shm_bytes: None,
            mounts_hub_cache: false,
            locks_memory: false,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn nothing_of_the_gateways_own_gets_through() {
        let pair = |name: &str| (name.to_owned(), "x".to_owned());
        let given =
            ["PATH", "LC_ALL", "CUDA_HOME", "https_proxy", "SESSION_SECRET", "DATABASE_URL", "LD_PRELOAD"];
        let passed: Vec<String> = passed(given.map(pair)).into_iter().map(|(name, _)| name).collect();
        assert_eq!(passed, ["PATH", "LC_ALL", "CUDA_HOME", "https_proxy"]);
    }

    #[test]
    fn a_record_cannot_choose_code_by_a_variable() {
        for name in [
            "LD_PRELOAD",
            "PATH",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "CC",
            "BASH_ENV",
            "NCCL_NET_PLUGIN",
            "CUDA_INJECTION64_PATH",
            "GANTRY_ENGINE_INSTANCE",
            "GGML_BACKEND_PATH",
            "HOME",
            "LLAMA_ARG_SSL_KEY_FILE",
        ] {
            assert_eq!(refused_variable(&launch(&["VLLM_API_KEY", name], &[])), Some(name));
        }
        let good = ["VLLM_LOGGING_LEVEL", "OMP_NUM_THREADS", "HF_HOME", "GANTRY_SIM_TTFT_MS", "NCCL_DEBUG"];
        assert_eq!(refused_variable(&launch(&good, &[])), None);
    }

    #[test]
    fn gpus_are_chosen_by_the_record_and_none_is_none() {
        let value = |env: &[(String, String)], name: &str| {
            env.iter().rfind(|(it, _)| it == name).map(|(_, value)| value.clone())
        };
        let base = [("CUDA_VISIBLE_DEVICES".to_owned(), "7".to_owned())];
        let some = of(&launch(&[], &[0, 2]), &base, ("owner", "id"), true);
        assert_eq!(value(&some, "CUDA_VISIBLE_DEVICES").as_deref(), Some("0,2"));
        assert_eq!(value(&some, "HIP_VISIBLE_DEVICES").as_deref(), Some("0,2"));
        let none = of(&launch(&[], &[]), &base, ("owner", "id"), true);
        assert_eq!(value(&none, "CUDA_VISIBLE_DEVICES").as_deref(), Some(""));
        assert_eq!(value(&none, MARK).as_deref(), Some("owner/id"));
        let without = of(&launch(&[], &[]), &[], ("owner", "id"), false);
        assert_eq!(value(&without, "CUDA_VISIBLE_DEVICES"), None);
    }
}
