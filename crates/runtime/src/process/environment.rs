//! Makes the environment of an engine's process. A container gets none of the gateway's variables; a process gets only
//! a few.

use gantry_domain::engine::Launch;
use secrecy::ExposeSecret;

use super::system::MARK;
use crate::no_statistics::NO_STATISTICS;

/// Variables that an engine gets from the gateway's own environment. The gateway's settings are not among them, since
/// some are secrets.
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

/// Variables that a model's `extra_env` may set, name by name. In a container, any variable affects only the container.
/// Here one such as `LD_PRELOAD`, `PYTHONPATH` or `OMP_TOOL_LIBRARIES` would run a program of the record's choice as
/// the gateway's user, and one such as `OMP_TOOL_VERBOSE_INIT` would write to a file of its choice. Before you add a
/// name, make sure that its value names no code, no file and no address.
const ALLOWED: &[&str] = &[
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    // vLLM
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_NUM_OF_RESERVED_CPU",
    "VLLM_CPU_OMP_THREADS_BIND",
    "VLLM_DISABLE_COMPILE_CACHE",
    "VLLM_DO_NOT_TRACK",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
    "VLLM_ENGINE_ITERATION_TIMEOUT_S",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
    "VLLM_FLASH_ATTN_VERSION",
    "VLLM_FUSED_MOE_CHUNK_SIZE",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
    "VLLM_LOGGING_LEVEL",
    "VLLM_LOG_STATS_INTERVAL",
    "VLLM_MM_INPUT_CACHE_GIB",
    "VLLM_NO_USAGE_STATS",
    "VLLM_ROCM_USE_AITER",
    "VLLM_RPC_TIMEOUT",
    "VLLM_SKIP_P2P_CHECK",
    "VLLM_SLEEP_WHEN_IDLE",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER_SAMPLER",
    "VLLM_USE_TRITON_AWQ",
    "VLLM_USE_TRITON_FLASH_ATTN",
    "VLLM_USE_V1",
    "VLLM_WORKER_MULTIPROC_METHOD",
    // llama.cpp
    "GGML_CUDA_DISABLE_GRAPHS",
    "GGML_CUDA_ENABLE_UNIFIED_MEMORY",
    "GGML_CUDA_FORCE_CUBLAS",
    "GGML_CUDA_FORCE_MMQ",
    "GGML_CUDA_NO_PINNED",
    "GGML_CUDA_PEER_MAX_BATCH_SIZE",
    "GGML_OP_OFFLOAD_MIN_BATCH",
    "GGML_SCHED_DEBUG",
    "GGML_VK_VISIBLE_DEVICES",
    "LLAMA_LOG_COLORS",
    "LLAMA_LOG_PREFIX",
    "LLAMA_LOG_TIMESTAMPS",
    "LLAMA_LOG_VERBOSITY",
    // The hub
    "HF_HUB_DISABLE_PROGRESS_BARS",
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_DISABLE_XET",
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_ENABLE_HF_TRANSFER",
    "HF_HUB_ETAG_TIMEOUT",
    "HF_XET_HIGH_PERFORMANCE",
    "TOKENIZERS_PARALLELISM",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS",
    "TRANSFORMERS_VERBOSITY",
    // GPUs
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GPU_MAX_HW_QUEUES",
    "HIP_VISIBLE_DEVICES",
    "HSA_ENABLE_SDMA",
    "HSA_NO_SCRATCH_RECLAIM",
    "HSA_OVERRIDE_GFX_VERSION",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "ROCR_VISIBLE_DEVICES",
    "TORCH_CUDA_ARCH_LIST",
    // Between GPUs
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NTHREADS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    // Threads
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_FORKJOIN_BARRIER_PATTERN",
    "KMP_PLAIN_BARRIER_PATTERN",
    "KMP_REDUCTION_BARRIER_PATTERN",
    "KMP_TPAUSE",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS",
    "OMP_DYNAMIC",
    "OMP_MAX_ACTIVE_LEVELS",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_STACKSIZE",
    "OMP_THREAD_LIMIT",
    "OMP_WAIT_POLICY",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
];
/// Prefix of the simulator's own variables, which no engine reads.
const SIMULATORS: &str = "GANTRY_SIM_";
/// Variables that the gateway itself puts into the launch.
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

/// Returns the variables that a process may take over from the gateway's.
pub(super) fn passed(all: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let passes = |name: &str| PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|it| name.starts_with(it));
    all.into_iter().filter(|(name, _)| passes(name)).collect()
}

/// Returns a variable of the launch that may not be set if engines are processes: a start with it is refused.
pub(super) fn refused_variable(launch: &Launch) -> Option<&str> {
    let allowed =
        |name: &str| OURS.contains(&name) || ALLOWED.contains(&name) || name.starts_with(SIMULATORS);
    launch.env.iter().map(|(name, _)| name.as_str()).find(|it| !allowed(it))
}

/// Returns the whole environment of an engine. Only here and in the container's request are secrets taken out of their
/// wrappers.
///
/// `mark` is the value of [`MARK`]. `hides_gpus`: the machine has GPUs, so an engine that is given none must not see
/// them. AMD's libraries read both variables, which therefore must agree.
pub(super) fn of(
    launch: &Launch,
    base: &[(String, String)],
    mark: String,
    hides_gpus: bool,
) -> Vec<(String, String)> {
    let mut all = base.to_vec();
    all.extend(NO_STATISTICS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let gpus: Vec<String> = launch.gpus.iter().map(u32::to_string).collect();
    if hides_gpus || !gpus.is_empty() {
        all.push(("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
        all.push(("HIP_VISIBLE_DEVICES".to_owned(), gpus.join(",")));
        // With it, GPU numbers mean the same as elsewhere: CUDA's own order is by speed.
        all.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
    }
    all.extend(launch.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())));
    all.push((MARK.to_owned(), mark));
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
            confinement: gantry_domain::engine::Confinement::default(),
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
            "OMP_TOOL_LIBRARIES",
            "OMP_TOOL_VERBOSE_INIT",
            "HSA_TOOLS_LIB",
            "CUDA_HOME",
            "TORCH_TRACE",
            "CUDA_COREDUMP_PIPE",
            "VLLM_ASSETS_CACHE",
            "VLLM_USAGE_STATS_SERVER",
            "VLLM_OF_NEXT_YEAR",
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
        let some = of(&launch(&[], &[0, 2]), &base, "owner/id".to_owned(), true);
        assert_eq!(value(&some, "CUDA_VISIBLE_DEVICES").as_deref(), Some("0,2"));
        assert_eq!(value(&some, "HIP_VISIBLE_DEVICES").as_deref(), Some("0,2"));
        let none = of(&launch(&[], &[]), &base, "owner/id".to_owned(), true);
        assert_eq!(value(&none, "CUDA_VISIBLE_DEVICES").as_deref(), Some(""));
        assert_eq!(value(&none, MARK).as_deref(), Some("owner/id"));
        let without = of(&launch(&[], &[]), &[], "owner/id".to_owned(), false);
        assert_eq!(value(&without, "CUDA_VISIBLE_DEVICES"), None);
    }
}
