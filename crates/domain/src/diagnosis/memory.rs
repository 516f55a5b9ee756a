//! Memory that runs out, as the engines report it.
//!
//! vLLM's texts are from its sources (0.32.0: `v1/core/kv_cache_utils.py`, `v1/worker/utils.py`,
//! `v1/worker/gpu_model_runner.py`, `platforms/cuda.py`), the CUDA runtime's from threads of both projects.

use super::{
    signature::{
        Advice, Both, Signature, Target,
        Try::{Captured, Made, Text},
        When, both, change, set, tip,
    },
    values,
};
use crate::model::EngineKind::{self, Llamacpp, Vllm};

const fn log(
    id: &'static str,
    engine: Option<EngineKind>,
    patterns: &'static [&'static str],
    title: Both,
    message: Both,
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
        both("Context does not fit into the KV cache", "Der Kontext passt nicht in den KV-Cache"),
        both(
            "a context of {asked} tokens needs more KV cache than is left beside the weights[: {needed} of \
             {there} GiB]",
            "ein Kontext von {asked} Tokens braucht mehr KV-Cache, als neben den Gewichten übrig ist[: \
             {needed} von {there} GiB]",
        ),
        &[
            set(
                "max_model_len",
                Captured("length"),
                both(
                    "use the longest context that fits[: {length} tokens]",
                    "verwenden Sie den längsten Kontext, der passt[: {length} Tokens]",
                ),
            ),
            set(
                "kv_cache_dtype",
                Text("fp8"),
                both(
                    "or halve the cache with FP8 elements",
                    "oder halbieren Sie den Cache mit FP8-Elementen",
                ),
            ),
            set(
                "gpu_memory_utilization",
                Made(values::more_memory),
                both(
                    "or give the engine more of the GPU's memory",
                    "oder geben Sie der Engine mehr vom Speicher der GPU",
                ),
            ),
            change(
                "tensor_parallel_size",
                both("or split the model over more GPUs", "oder verteilen Sie das Modell auf mehr GPUs"),
            ),
        ],
    ),
    log(
        "vllm_no_kv_cache_memory",
        Some(Vllm),
        &["No available memory for the cache blocks", "Cannot auto-fit max_model_len: not enough GPU memory"],
        both("No memory left for the KV cache", "Kein Speicher für den KV-Cache übrig"),
        both(
            "the weights fill what the engine may use, so nothing is left for the KV cache",
            "die Gewichte füllen, was die Engine verwenden darf; für den KV-Cache bleibt nichts",
        ),
        &[
            set(
                "gpu_memory_utilization",
                Made(values::more_memory),
                both("give the engine more of the memory", "geben Sie der Engine mehr von dem Speicher"),
            ),
            change(
                "tensor_parallel_size",
                both("split the model over more GPUs", "verteilen Sie das Modell auf mehr GPUs"),
            ),
            change(
                "quantization",
                both(
                    "use a quantised version of the model",
                    "verwenden Sie eine quantisierte Fassung des Modells",
                ),
            ),
            set(
                "max_num_batched_tokens",
                Made(values::half),
                both("handle fewer tokens in one step", "verarbeiten Sie weniger Tokens in einem Schritt"),
            ),
        ],
    ),
    log(
        "gpu_in_use",
        Some(Vllm),
        &[
            "Free memory on device {device} ({free#}/{total#} GiB) on startup is less than desired GPU memory utilization ({asked#}",
        ],
        both("GPU used by others", "GPU von anderen belegt"),
        both(
            "of {total} GiB on the GPU only {free} GiB are free; the engine wants {asked} of all",
            "von {total} GiB der GPU sind nur {free} GiB frei; die Engine will einen Anteil von {asked} \
             der ganzen GPU",
        ),
        &[
            tip(both(
                "stop other models or programs on this GPU (`nvidia-smi` shows them)",
                "stoppen Sie andere Modelle oder Programme auf dieser GPU (`nvidia-smi` zeigt sie)",
            )),
            set(
                "gpu_memory_utilization",
                Made(values::free_share),
                both(
                    "or let the engine use only what is free",
                    "oder lassen Sie die Engine nur verwenden, was frei ist",
                ),
            ),
            change("selected_gpus", both("or choose another GPU", "oder wählen Sie eine andere GPU")),
        ],
    ),
    log(
        "vllm_cpu_memory_too_small",
        Some(Vllm),
        &[
            "Available memory on node {node#} ({free#}/{total#} GiB) on startup is less than desired CPU memory utilization ({asked#}, {wanted#} GiB)",
            "Available memory on node {node#} ({free#}/{total#} GiB) on kv cache allocation is less than requested memory for kv ({wanted#}",
        ],
        both("Not enough RAM for the KV cache", "Zu wenig RAM für den KV-Cache"),
        both(
            "without a GPU the engine reserves RAM: it wants {wanted} GiB, and {free} of {total} GiB are \
             free",
            "ohne GPU reserviert die Engine RAM: sie will {wanted} GiB, und {free} von {total} GiB sind frei",
        ),
        &[
            set(
                "kv_cache_memory_bytes",
                Made(values::half_of_free),
                both("reserve less RAM for the KV cache", "reservieren Sie weniger RAM für den KV-Cache"),
            ),
            tip(both(
                "`VLLM_CPU_KVCACHE_SPACE` in `extra_env` counts more: lower it there if it is set",
                "`VLLM_CPU_KVCACHE_SPACE` in `extra_env` hat Vorrang: ist es dort gesetzt, verringern Sie es",
            )),
            tip(both(
                "or stop other models and programs of this machine",
                "oder stoppen Sie andere Modelle und Programme dieser Maschine",
            )),
        ],
    ),
    log(
        "vllm_weights_too_large",
        Some(Vllm),
        &["Failed to load model - not enough GPU memory"],
        both("Model too large for the GPU", "Modell zu groß für die GPU"),
        both(
            "the weights do not fit into the GPU's memory",
            "die Gewichte passen nicht in den Speicher der GPU",
        ),
        &[
            change(
                "tensor_parallel_size",
                both("split the model over more GPUs", "verteilen Sie das Modell auf mehr GPUs"),
            ),
            change(
                "quantization",
                both(
                    "use a quantised version of the model",
                    "verwenden Sie eine quantisierte Fassung des Modells",
                ),
            ),
            change(
                "cpu_offload_gb",
                both(
                    "keep a part of the weights in CPU memory (slow)",
                    "behalten Sie einen Teil der Gewichte im Arbeitsspeicher (langsam)",
                ),
            ),
        ],
    ),
    log(
        "vllm_memory_profiling_disturbed",
        Some(Vllm),
        &["Error in memory profiling"],
        both("Memory measurement disturbed", "Messung des Speichers gestört"),
        both(
            "another program freed or took memory of the GPU while the engine measured it",
            "ein anderes Programm hat Speicher der GPU freigegeben oder belegt, während die Engine ihn maß",
        ),
        &[tip(both(
            "start the model again when nothing else starts or stops on this GPU",
            "starten Sie das Modell erneut, wenn auf dieser GPU sonst nichts startet oder endet",
        ))],
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
        both("GPU out of memory", "Speicher der GPU erschöpft"),
        both(
            "the GPU's memory ran out[ when {wanted} more were asked for]",
            "der Speicher der GPU ging aus[, als {wanted} mehr verlangt wurden]",
        ),
        &[
            set(
                "max_model_len",
                Made(values::half),
                both("use a shorter context", "verwenden Sie einen kürzeren Kontext"),
            ),
            set(
                "max_num_seqs",
                Made(values::half),
                both("answer fewer requests together", "beantworten Sie weniger Anfragen gleichzeitig"),
            ),
            change(
                "tensor_parallel_size",
                both("split the model over more GPUs", "verteilen Sie das Modell auf mehr GPUs"),
            ),
            change(
                "quantization",
                both(
                    "use a quantised version of the model",
                    "verwenden Sie eine quantisierte Fassung des Modells",
                ),
            ),
            tip(both(
                "check that nothing else uses the GPU (`nvidia-smi`)",
                "prüfen Sie, ob nichts anderes die GPU verwendet (`nvidia-smi`)",
            )),
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
        both("GPU out of memory", "Speicher der GPU erschöpft"),
        both(
            "the model, its KV cache or the compute buffers do not fit into the GPU's memory",
            "das Modell, sein KV-Cache oder die Rechenpuffer passen nicht in den Speicher der GPU",
        ),
        &[
            Advice {
                text: both(
                    "keep fewer layers on the GPU: with `fit_memory` on and no `ngl`, builds from b7400 \
                     choose as many as fit",
                    "behalten Sie weniger Schichten auf der GPU: mit `fit_memory` auf on und ohne `ngl` \
                     wählen Builds ab b7400 so viele, wie passen",
                ),
                target: Target::Helping("fit_memory", values::layers_field),
                value: Made(values::fewer_layers),
            },
            set(
                "context_size",
                Made(values::half),
                both("use a shorter context", "verwenden Sie einen kürzeren Kontext"),
            ),
            set(
                "cache_type_k",
                Text("q8_0"),
                both(
                    "halve the KV cache (`cache_type_v` as well)",
                    "halbieren Sie den KV-Cache (auch mit `cache_type_v`)",
                ),
            ),
            change(
                "n_cpu_moe",
                both(
                    "keep experts in RAM, for mixture-of-experts models",
                    "behalten Sie bei Mixture-of-Experts-Modellen die Experten im RAM",
                ),
            ),
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
        both("Out of memory", "Speicher erschöpft"),
        both(
            "the KV cache or the weights do not fit into memory",
            "der KV-Cache oder die Gewichte passen nicht in den Speicher",
        ),
        &[
            set(
                "context_size",
                Made(values::half),
                both("use a shorter context", "verwenden Sie einen kürzeren Kontext"),
            ),
            set(
                "cache_type_k",
                Text("q8_0"),
                both(
                    "halve the KV cache (`cache_type_v` as well)",
                    "halbieren Sie den KV-Cache (auch mit `cache_type_v`)",
                ),
            ),
            tip(both(
                "use a smaller or more strongly quantised model",
                "verwenden Sie ein kleineres oder stärker quantisiertes Modell",
            )),
        ],
    ),
];
