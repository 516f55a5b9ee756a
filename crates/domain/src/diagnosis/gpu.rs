//! Failures of memory and hardware that the engines report.
//!
//! vLLM's texts are from its sources (0.32.0: `v1/core/kv_cache_utils.py`, `v1/worker/utils.py`,
//! `v1/worker/gpu_model_runner.py`, `config/parallel.py`, `config/vllm.py`, `platforms/cuda.py`), the CUDA
//! runtime's and NCCL's from threads of both projects.

use super::{
    signature::{
        Advice, Signature, Target,
        Try::{Bool, Captured, Made, Number, Text, Unset},
        When, change, set, tip,
    },
    values,
};
use crate::model::EngineKind::{self, Llamacpp, Vllm};

const fn log(
    id: &'static str,
    engine: Option<EngineKind>,
    patterns: &'static [&'static str],
    title: &'static str,
    message: &'static str,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, engine, When::Log(patterns), title, message, fixes)
}

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "vllm_kv_cache_too_small",
        Some(Vllm),
        &[
            "max seq len ({asked#}), ({needed#} GiB KV cache is needed, which is larger than the available KV cache memory ({there#} GiB). Based on the available memory, the estimated maximum model length is {length#}",
            "max seq len ({asked#}), {needed#} GiB KV cache is needed, which is larger than the available KV cache memory ({there#} GiB). Based on the available memory, the estimated maximum model length is {length#}",
            "max seq len ({asked#}), ({needed#} GiB KV cache is needed, which is larger than the available KV cache memory ({there#} GiB)",
            "max seq len ({asked#}) is larger than the maximum number of tokens that can be stored in KV cache ({length#})",
        ],
        "Context does not fit into the KV cache",
        "a context of {asked} tokens needs more KV cache than is left beside the weights[: {needed} of {there} GiB]",
        &[
            set("max_model_len", Captured("length"), "use the longest context that fits[: {length} tokens]"),
            set("kv_cache_dtype", Text("fp8"), "or halve the cache with FP8 elements"),
            set(
                "gpu_memory_utilization",
                Made(values::more_memory),
                "or give the engine more of the GPU's memory",
            ),
            change("tensor_parallel_size", "or split the model over more GPUs"),
        ],
    ),
    log(
        "vllm_no_kv_cache_memory",
        Some(Vllm),
        &["No available memory for the cache blocks", "Cannot auto-fit max_model_len: not enough GPU memory"],
        "No memory left for the KV cache",
        "the weights fill what the engine may use, so nothing is left for the KV cache",
        &[
            set("gpu_memory_utilization", Made(values::more_memory), "give the engine more of the memory"),
            change("tensor_parallel_size", "split the model over more GPUs"),
            change("quantization", "use a quantised version of the model"),
            set("max_num_batched_tokens", Made(values::half), "handle fewer tokens in one step"),
        ],
    ),
    log(
        "gpu_in_use",
        Some(Vllm),
        &[
            "Free memory on device {device} ({free#}/{total#} GiB) on startup is less than desired GPU memory utilization ({asked#}",
        ],
        "GPU used by others",
        "of {total} GiB on the GPU only {free} GiB are free; the engine wants {asked} of all",
        &[
            tip("stop other models or programs on this GPU (`nvidia-smi` shows them)"),
            set(
                "gpu_memory_utilization",
                Made(values::free_share),
                "or let the engine use only what is free",
            ),
            change("selected_gpus", "or choose another GPU"),
        ],
    ),
    log(
        "vllm_cpu_memory_too_small",
        Some(Vllm),
        &[
            "Available memory on node {node#} ({free#}/{total#} GiB) on startup is less than desired CPU memory utilization ({asked#}, {wanted#} GiB)",
            "Available memory on node {node#} ({free#}/{total#} GiB) on kv cache allocation is less than requested memory for kv ({wanted#}",
        ],
        "Not enough RAM for the KV cache",
        "without a GPU the engine reserves RAM: it wants {wanted} GiB, and {free} of {total} GiB are free",
        &[
            set("kv_cache_memory_bytes", Made(values::half_of_free), "reserve less RAM for the KV cache"),
            tip("`VLLM_CPU_KVCACHE_SPACE` in `extra_env` counts more: lower it there if it is set"),
            tip("or stop other models and programs of this machine"),
        ],
    ),
    log(
        "vllm_weights_too_large",
        Some(Vllm),
        &["Failed to load model - not enough GPU memory"],
        "Model too large for the GPU",
        "the weights do not fit into the GPU's memory",
        &[
            change("tensor_parallel_size", "split the model over more GPUs"),
            change("quantization", "use a quantised version of the model"),
            change("cpu_offload_gb", "keep a part of the weights in CPU memory (slow)"),
        ],
    ),
    log(
        "vllm_memory_profiling_disturbed",
        Some(Vllm),
        &["Error in memory profiling"],
        "Memory measurement disturbed",
        "another program freed or took memory of the GPU while the engine measured it",
        &[tip("start the model again when nothing else starts or stops on this GPU")],
    ),
    log(
        "vllm_cuda_out_of_memory",
        Some(Vllm),
        &[
            "OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU",
            "CUDA out of memory. Tried to allocate {wanted}. ",
            "CUDA out of memory",
            "torch.OutOfMemoryError",
            "CUDA error: out of memory",
        ],
        "GPU out of memory",
        "the GPU's memory ran out[ when {wanted} more were asked for]",
        &[
            set("max_model_len", Made(values::half), "use a shorter context"),
            set("max_num_seqs", Made(values::half), "answer fewer requests together"),
            change("tensor_parallel_size", "split the model over more GPUs"),
            change("quantization", "use a quantised version of the model"),
            tip("check that nothing else uses the GPU (`nvidia-smi`)"),
        ],
    ),
    log(
        "llamacpp_gpu_out_of_memory",
        Some(Llamacpp),
        &[
            "allocating {mib#} MiB on device {device}: cudaMalloc failed: out of memory",
            "cudaMalloc failed: out of memory",
            "failed to allocate CUDA{device} buffer of size {bytes#}",
            "unable to allocate CUDA{device} buffer",
            "CUDA error: out of memory",
        ],
        "GPU out of memory",
        "the model, its KV cache or the compute buffers do not fit into the GPU's memory",
        &[
            Advice {
                text: "keep fewer layers on the GPU: with `fit_memory` on and no `ngl`, builds from b7400 choose as many \
                       as fit",
                target: Target::Helping("fit_memory", values::layers_field),
                value: Made(values::fewer_layers),
            },
            set("context_size", Made(values::half), "use a shorter context"),
            set("cache_type_k", Text("q8_0"), "halve the KV cache (`cache_type_v` as well)"),
            change("n_cpu_moe", "keep experts in RAM, for mixture-of-experts models"),
        ],
    ),
    log(
        "llamacpp_out_of_memory",
        Some(Llamacpp),
        &[
            "ggml_aligned_malloc: insufficient memory (attempted to allocate {mib#} MB)",
            "failed to allocate buffer for kv cache",
            "failed to allocate compute",
            "unable to allocate {device} buffer",
            "failed to allocate {device} buffer of size {bytes#}",
            "std::bad_alloc",
        ],
        "Out of memory",
        "the KV cache or the weights do not fit into memory",
        &[
            set("context_size", Made(values::half), "use a shorter context"),
            set("cache_type_k", Text("q8_0"), "halve the KV cache (`cache_type_v` as well)"),
            tip("use a smaller or more strongly quantised model"),
        ],
    ),
    log(
        "too_few_gpus",
        Some(Vllm),
        &[
            "World size ({size#}) is larger than the number of available GPUs ({gpus#})",
            "The number of required GPUs exceeds the total number of available GPUs",
        ],
        "Fewer GPUs than asked for",
        "the model is to be split over more GPUs than the container has[: {size} of {gpus}]",
        &[
            set("tensor_parallel_size", Made(values::gpus_there), "use as many as there are"),
            set("selected_gpus", Unset, "or give the container more GPUs"),
        ],
    ),
    log(
        "heads_not_divisible",
        Some(Vllm),
        &["Total number of attention heads ({heads#}) must be divisible by tensor parallel size ({size#})"],
        "Model can't be split like this",
        "the model's {heads} attention heads can't be shared out evenly over {size} GPUs",
        &[set(
            "tensor_parallel_size",
            Made(values::divisor),
            "use a number that divides {heads}, and the heads of keys and values",
        )],
    ),
    log(
        "dtype_not_supported",
        Some(Vllm),
        &["Bfloat16 is only supported on GPUs with compute capability of at least {needed#}. Your {gpu} GPU"],
        "GPU too old for bfloat16",
        "the {gpu} can't calculate with bfloat16",
        &[set("dtype", Text("half"), "use 16-bit floats of the other kind")],
    ),
    log(
        "quantization_needs_newer_gpu",
        Some(Vllm),
        &[
            "The quantization method {method} is not supported for the current GPU. Minimum capability: {needed#}",
            "Quantization scheme is not supported for the current GPU",
        ],
        "GPU too old for this quantisation",
        "the quantisation[ `{method}`] needs a newer GPU[: compute capability {needed} (in tenths) or above]",
        &[
            change("quantization", "use a checkpoint with another quantisation, such as AWQ or GPTQ"),
            change("selected_gpus", "or choose a newer GPU"),
        ],
    ),
    log(
        "dtype_not_with_quantization",
        Some(Vllm),
        &["{dtype} is not supported for quantization method {method}. Supported dtypes: {dtypes}"],
        "Type does not go with the quantisation",
        "`{method}` can't calculate with `{dtype}`; it supports {dtypes}",
        &[set("dtype", Text("half"), "use a supported type")],
    ),
    log(
        "cuda_driver_too_old",
        None,
        &[
            "CUDA driver version is insufficient",
            "The NVIDIA driver on your system is too old",
            "forward compatibility was attempted on non supported HW",
            "system has unsupported display driver / cuda driver combination",
        ],
        "GPU driver too old for the image",
        "the host's GPU driver is older than the CUDA version in the engine's image",
        &[
            tip("update the GPU driver of the host"),
            change("engine_image", "or use an image that was made for an older CUDA"),
        ],
    ),
    log(
        "gpu_not_supported_by_image",
        None,
        &["no kernel image is available for execution on the device"],
        "Image not made for this GPU",
        "the engine's image holds no code for this generation of GPU",
        &[change("engine_image", "use another version or variant of the image")],
    ),
    log(
        "no_gpu",
        Some(Vllm),
        &[
            "Failed to infer device type",
            "No CUDA GPUs are available",
            "Found no NVIDIA driver on your system",
            "libcuda.so.1: cannot open shared object file",
        ],
        "No GPU in the container",
        "the engine's image needs a GPU, and the container has none",
        &[
            tip("check `nvidia-smi` on the host and that nvidia-container-toolkit is configured"),
            set("selected_gpus", Unset, "give the container GPUs"),
            change("engine_image", "or use the image for CPUs, with `device` set to `cpu`"),
        ],
    ),
    log(
        "shared_memory_too_small",
        Some(Vllm),
        &[
            "Error while creating shared memory segment",
            "unable to open shared memory object",
            "Bus error",
            "No space left on device: '/dev/shm",
        ],
        "Shared memory too small",
        "the processes of the engine ran out of shared memory (`/dev/shm`)",
        &[
            change("tensor_parallel_size", "split the model over fewer GPUs: containers get 1 GiB of it"),
            change(
                "extra_env",
                "or set `NCCL_SHM_DISABLE=1`, with which GPUs exchange more slowly, but without it",
            ),
            tip("or run engines as processes (`CONTAINER_RUNTIME=process`), which have the host's"),
        ],
    ),
    log(
        "nccl_failed",
        Some(Vllm),
        &[
            "NCCL error",
            "ncclSystemError",
            "ncclUnhandledCudaError",
            "Watchdog caught collective operation timeout",
        ],
        "GPUs can't talk to each other",
        "the connection between the GPUs (NCCL) failed",
        &[
            change("extra_env", "set `NCCL_P2P_DISABLE=1`, and `NCCL_DEBUG=INFO` to see more"),
            tip("the driver must be the same for all GPUs; a reboot helps after an update"),
            set("tensor_parallel_size", Number(1), "or use one GPU"),
        ],
    ),
    log(
        "cuda_error",
        None,
        &["CUDA error: {what}"],
        "GPU error",
        "the GPU reported an error: {what}",
        &[
            tip("look for `Xid` in `dmesg` on the host; reset the GPU or reboot"),
            change("engine_image", "try another version of the engine"),
        ],
    ),
    log(
        "llamacpp_gpu_not_used",
        Some(Llamacpp),
        &[
            "no usable GPU found, --gpu-layers option will be ignored",
            "failed to initialize CUDA: {why}",
            "no CUDA-capable device is detected",
            "compiled without support for GPU offload",
        ],
        "No GPU is used",
        "the engine found no GPU it can use, so the model runs on the CPU, slowly",
        &[
            change("engine_image", "use the image for CUDA if the machine has a GPU"),
            tip("check `nvidia-smi` on the host and that nvidia-container-toolkit is configured"),
            set("device", Text("cpu"), "or say that the CPU is meant"),
        ],
    )
    .notice()
    .unless(|config| config.text("device") == Some("cpu")),
    log(
        "llamacpp_memory_not_locked",
        Some(Llamacpp),
        &["failed to mlock {bytes#}-byte buffer"],
        "Weights not locked in RAM",
        "the limit on locked memory is too low, so the weights may be swapped out",
        &[
            tip("raise the limit for the container runtime (`LimitMEMLOCK=infinity`)"),
            set("mlock", Bool(false), "or don't lock the weights"),
        ],
    )
    .notice(),
];
