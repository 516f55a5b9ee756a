//! Failures of GPUs and other hardware that the engines report.
//!
//! vLLM's texts are from its sources (0.32.0: `config/parallel.py`, `config/vllm.py`, `platforms/cuda.py`), the CUDA
//! runtime's and NCCL's from threads of both projects.

use super::{
    signature::{
        Advice, Both, Signature,
        Try::{Bool, Made, Number, Text, Unset},
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
        "too_few_gpus",
        Some(Vllm),
        &[
            "World size ({size#}) is larger than the number of available GPUs ({gpus#})",
            "The number of required GPUs exceeds the total number of available GPUs",
        ],
        both("Fewer GPUs than asked for", "Weniger GPUs als verlangt"),
        both(
            "the model is to be split over more GPUs than the container has[: {size} of {gpus}]",
            "das Modell soll auf mehr GPUs verteilt werden, als der Container hat[: {size} statt {gpus}]",
        ),
        &[
            set(
                "tensor_parallel_size",
                Made(values::gpus_there),
                both("use as many as there are", "verwenden Sie so viele, wie vorhanden sind"),
            ),
            set(
                "selected_gpus",
                Unset,
                both("or give the container more GPUs", "oder geben Sie dem Container mehr GPUs"),
            ),
        ],
    ),
    log(
        "heads_not_divisible",
        Some(Vllm),
        &["Total number of attention heads ({heads#}) must be divisible by tensor parallel size ({size#})"],
        both("Model can't be split like this", "Das Modell lässt sich so nicht verteilen"),
        both(
            "the model's {heads} attention heads can't be shared out evenly over {size} GPUs",
            "die {heads} Attention-Köpfe des Modells lassen sich nicht gleichmäßig auf {size} GPUs verteilen",
        ),
        &[set(
            "tensor_parallel_size",
            Made(values::divisor),
            both(
                "use a number that divides {heads}, and the heads of keys and values",
                "verwenden Sie eine Zahl, die {heads} und die Zahl der Köpfe für Schlüssel und Werte teilt",
            ),
        )],
    ),
    log(
        "dtype_not_supported",
        Some(Vllm),
        &["Bfloat16 is only supported on GPUs with compute capability of at least {needed#}. Your {gpu} GPU"],
        both("GPU too old for bfloat16", "GPU zu alt für bfloat16"),
        both("the {gpu} can't calculate with bfloat16", "die GPU {gpu} kann nicht mit bfloat16 rechnen"),
        &[set(
            "dtype",
            Text("half"),
            both("use 16-bit floats of the other kind", "verwenden Sie das andere 16-Bit-Format"),
        )],
    ),
    log(
        "quantization_needs_newer_gpu",
        Some(Vllm),
        &[
            "The quantization method {method} is not supported for the current GPU. Minimum capability: {needed#}",
            "Quantization scheme is not supported for the current GPU",
        ],
        both("GPU too old for this quantisation", "GPU zu alt für diese Quantisierung"),
        both(
            "the quantisation[ `{method}`] needs a newer GPU[: compute capability {needed} (in tenths) or \
             above]",
            "die Quantisierung[ `{method}`] braucht eine neuere GPU[: ab Compute Capability {needed} (in \
             Zehnteln)]",
        ),
        &[
            change(
                "quantization",
                both(
                    "use a checkpoint with another quantisation, such as AWQ or GPTQ",
                    "verwenden Sie einen Checkpoint mit einer anderen Quantisierung, etwa AWQ oder GPTQ",
                ),
            ),
            change("selected_gpus", both("or choose a newer GPU", "oder wählen Sie eine neuere GPU")),
        ],
    ),
    log(
        "dtype_not_with_quantization",
        Some(Vllm),
        &["{dtype} is not supported for quantization method {method}. Supported dtypes: {dtypes}"],
        both("Type does not go with the quantisation", "Datentyp passt nicht zur Quantisierung"),
        both(
            "`{method}` can't calculate with `{dtype}`; it supports {dtypes}",
            "`{method}` kann nicht mit `{dtype}` rechnen; unterstützt werden {dtypes}",
        ),
        &[set(
            "dtype",
            Text("half"),
            both("use a supported type", "verwenden Sie einen unterstützten Datentyp"),
        )],
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
        both("GPU driver too old for the image", "GPU-Treiber zu alt für das Image"),
        both(
            "the host's GPU driver is older than the CUDA version in the engine's image",
            "der GPU-Treiber des Hosts ist älter als die CUDA-Version im Image der Engine",
        ),
        &[
            tip(both("update the GPU driver of the host", "aktualisieren Sie den GPU-Treiber des Hosts")),
            change(
                "engine_image",
                both(
                    "or use an image that was made for an older CUDA",
                    "oder verwenden Sie ein Image, das für ein älteres CUDA erstellt wurde",
                ),
            ),
        ],
    ),
    log(
        "gpu_not_supported_by_image",
        None,
        &["no kernel image is available for execution on the device"],
        both("Image not made for this GPU", "Image nicht für diese GPU erstellt"),
        both(
            "the engine's image holds no code for this generation of GPU",
            "das Image der Engine enthält keinen Code für diese GPU-Generation",
        ),
        &[change(
            "engine_image",
            both(
                "use another version or variant of the image",
                "verwenden Sie eine andere Version oder Variante des Images",
            ),
        )],
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
        both("No GPU in the container", "Keine GPU im Container"),
        both(
            "the engine's image needs a GPU, and the container has none",
            "das Image der Engine braucht eine GPU, und der Container hat keine",
        ),
        &[
            tip(both(
                "check `nvidia-smi` on the host and that nvidia-container-toolkit is configured",
                "prüfen Sie `nvidia-smi` auf dem Host, und ob nvidia-container-toolkit eingerichtet ist",
            )),
            set("selected_gpus", Unset, both("give the container GPUs", "geben Sie dem Container GPUs")),
            change(
                "engine_image",
                both(
                    "or use the image for CPUs, with `device` set to `cpu`",
                    "oder verwenden Sie das Image für CPUs, mit `device` auf `cpu`",
                ),
            ),
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
        both("Shared memory too small", "Gemeinsamer Speicher zu klein"),
        both(
            "the processes of the engine ran out of shared memory (`/dev/shm`)",
            "den Prozessen der Engine ging der gemeinsame Speicher aus (`/dev/shm`)",
        ),
        &[
            change(
                "tensor_parallel_size",
                both(
                    "split the model over fewer GPUs: containers get 1 GiB of it",
                    "verteilen Sie das Modell auf weniger GPUs: Container bekommen 1 GiB davon",
                ),
            ),
            change(
                "extra_env",
                both(
                    "or set `NCCL_SHM_DISABLE=1`, with which GPUs exchange more slowly, but without it",
                    "oder setzen Sie `NCCL_SHM_DISABLE=1`: GPUs tauschen dann langsamer Daten aus, aber \
                     ohne diesen Speicher",
                ),
            ),
            tip(both(
                "or run engines as processes (`CONTAINER_RUNTIME=process`), which have the host's",
                "oder betreiben Sie Engines als Prozesse (`CONTAINER_RUNTIME=process`), die den des Hosts \
                 haben",
            )),
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
        both("GPUs can't talk to each other", "GPUs können nicht miteinander sprechen"),
        both(
            "the connection between the GPUs (NCCL) failed",
            "die Verbindung zwischen den GPUs (NCCL) ist fehlgeschlagen",
        ),
        &[
            change(
                "extra_env",
                both(
                    "set `NCCL_P2P_DISABLE=1`, and `NCCL_DEBUG=INFO` to see more",
                    "setzen Sie `NCCL_P2P_DISABLE=1`, und `NCCL_DEBUG=INFO`, um mehr zu sehen",
                ),
            ),
            tip(both(
                "the driver must be the same for all GPUs; a reboot helps after an update",
                "der Treiber muss für alle GPUs derselbe sein; nach einer Aktualisierung hilft ein \
                 Neustart der Maschine",
            )),
            set(
                "tensor_parallel_size",
                Number(1),
                both("or use one GPU", "oder verwenden Sie eine einzige GPU"),
            ),
        ],
    ),
    log(
        "cuda_error",
        None,
        &["CUDA error: {what}"],
        both("GPU error", "GPU-Fehler"),
        both("the GPU reported an error: {what}", "die GPU hat einen Fehler gemeldet: {what}"),
        &[
            tip(both(
                "look for `Xid` in `dmesg` on the host; reset the GPU or reboot",
                "suchen Sie nach `Xid` in `dmesg` auf dem Host; setzen Sie die GPU zurück, oder starten \
                 Sie die Maschine neu",
            )),
            change(
                "engine_image",
                both(
                    "try another version of the engine",
                    "versuchen Sie es mit einer anderen Version der Engine",
                ),
            ),
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
        both("No GPU is used", "Es wird keine GPU verwendet"),
        both(
            "the engine found no GPU it can use, so the model runs on the CPU, slowly",
            "die Engine hat keine nutzbare GPU gefunden; das Modell läuft deshalb langsam auf der CPU",
        ),
        &[
            change(
                "engine_image",
                both(
                    "use the image for CUDA if the machine has a GPU",
                    "verwenden Sie das Image für CUDA, wenn die Maschine eine GPU hat",
                ),
            ),
            tip(both(
                "check `nvidia-smi` on the host and that nvidia-container-toolkit is configured",
                "prüfen Sie `nvidia-smi` auf dem Host, und ob nvidia-container-toolkit eingerichtet ist",
            )),
            set(
                "device",
                Text("cpu"),
                both("or say that the CPU is meant", "oder legen Sie fest, dass die CPU gemeint ist"),
            ),
        ],
    )
    .notice()
    .unless(|config| config.text("device") == Some("cpu")),
    log(
        "llamacpp_memory_not_locked",
        Some(Llamacpp),
        &["failed to mlock {bytes#}-byte buffer"],
        both("Weights not locked in RAM", "Gewichte nicht im RAM gesperrt"),
        both(
            "the limit on locked memory is too low, so the weights may be swapped out",
            "die Grenze für gesperrten Speicher ist zu niedrig; die Gewichte können deshalb ausgelagert \
             werden",
        ),
        &[
            tip(both(
                "raise the limit for the container runtime (`LimitMEMLOCK=infinity`)",
                "erhöhen Sie die Grenze für die Container-Laufzeit (`LimitMEMLOCK=infinity`)",
            )),
            set(
                "mlock",
                Bool(false),
                both("or don't lock the weights", "oder sperren Sie die Gewichte nicht"),
            ),
        ],
    )
    .notice(),
];
