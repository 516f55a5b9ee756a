//! Fields of the primary engine. Versions in which vLLM knows a flag were measured in its wheels, 0.10.0 to 0.32.0.

use super::{
    Default,
    Emit::{Choice, Flag, Positive, Since, Special, Switch, Words},
    Field, Kind, Own, V_FIRST, V_LAST,
};
use crate::model::EngineKind::Vllm;

pub(super) const FIELDS: &[Field] = &[
    Field::new(
        "dtype",
        "precision",
        Kind::OneOf(&["auto", "half", "float16", "bfloat16", "float", "float32"]),
        Flag("--dtype"),
        "Type of weights and activations.",
        "Datentyp der Gewichte und Aktivierungen.",
    )
    .of(Vllm)
    .default(Default::Text("auto"))
    .own(Own::Same),
    Field::new(
        "quantization",
        "precision",
        Kind::Text { max: 64 },
        Choice("--quantization", &[("gguf", V_FIRST, [0, 24, 0]), ("bitsandbytes", V_FIRST, [0, 28, 0])]),
        "Quantisation method. Unset: read from the checkpoint.",
        "Verfahren der Quantisierung. Nicht gesetzt: aus dem Checkpoint gelesen.",
    )
    .examples(&["fp8", "awq", "gptq", "compressed-tensors"])
    .of(Vllm),
    Field::new(
        "tensor_parallel_size",
        "hardware",
        Kind::Int { min: 1, max: 64 },
        Flag("--tensor-parallel-size"),
        "GPUs over which each layer is split; at most the number of GPUs of the machine.",
        "GPUs, auf die jede Schicht verteilt wird; höchstens so viele, wie die Maschine hat.",
    )
    .of(Vllm),
    Field::new(
        "pipeline_parallel_size",
        "hardware",
        Kind::Int { min: 1, max: 64 },
        Flag("--pipeline-parallel-size"),
        "Stages over which the layers are spread; adds latency between stages.",
        "Stufen, auf die die Schichten verteilt werden; zwischen den Stufen entsteht Verzögerung.",
    )
    .of(Vllm),
    Field::new(
        "gpu_memory_utilization",
        "memory",
        Kind::Float { min: 0.05, max: 0.98 },
        Flag("--gpu-memory-utilization"),
        "Share of each GPU's memory that the engine may use. Without GPUs it is a share of the RAM, and the default does not count.",
        "Anteil am Speicher jeder GPU, den die Engine verwenden darf. Ohne GPUs ist es ein Anteil am RAM, und die \
         Vorgabe gilt nicht.",
    )
    .of(Vllm)
    .default(Default::Float(0.9))
    .own(Own::Other("0.92 from 0.20.0, 0.9 <0.20.0")),
    Field::new(
        "max_model_len",
        "memory",
        Kind::Int { min: 1, max: 100_000_000 },
        Flag("--max-model-len"),
        "Context length. Unset: the checkpoint's.",
        "Kontextlänge. Nicht gesetzt: die des Checkpoints.",
    )
    .of(Vllm)
    .unit("tokens"),
    Field::new(
        "max_num_seqs",
        "batching",
        Kind::Int { min: 1, max: 65_536 },
        Flag("--max-num-seqs"),
        "Sequences that are generated together.",
        "Sequenzen, die gleichzeitig erzeugt werden.",
    )
    .of(Vllm)
    .default(Default::Int(256))
    .own(Own::Other("1024 on GPUs from 70 GiB (not A100), 128 without GPUs, else 256")),
    Field::new(
        "max_num_batched_tokens",
        "batching",
        Kind::Int { min: 1, max: 10_000_000 },
        Flag("--max-num-batched-tokens"),
        "Tokens that the engine handles in one step.",
        "Tokens, die die Engine in einem Schritt verarbeitet.",
    )
    .of(Vllm)
    .unit("tokens")
    .default(Default::Int(2048))
    .own(Own::Other("8192 on H100-class GPUs, 16384 on GPUs from 160 GiB, else 2048"))
    .tuned(
        Default::Int(8192),
        "long prompts take fewer steps of the engine; the compute buffers grow, so that less memory is left for the cache",
        "lange Prompts brauchen weniger Schritte der Engine; die Rechenpuffer wachsen, sodass weniger Speicher für \
         den Cache bleibt",
    ),
    Field::new(
        "kv_cache_dtype",
        "memory",
        Kind::OneOf(&["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]),
        Flag("--kv-cache-dtype"),
        "Element type of the KV cache.",
        "Datentyp der Elemente des KV-Caches.",
    )
    .of(Vllm)
    .default(Default::Text("auto"))
    .own(Own::Same),
    Field::new(
        "kv_cache_memory_bytes",
        "memory",
        Kind::Int { min: 1, max: i64::MAX },
        Since(&[([0, 10, 2], V_LAST, Flag("--kv-cache-memory-bytes"))]),
        "Size of the KV cache on each GPU, or in RAM where there is no GPU. In RAM it is 4 GiB unless this or \
         `gpu_memory_utilization` is set.",
        "Größe des KV-Caches auf jeder GPU, oder im RAM, wo es keine GPU gibt. Im RAM sind es 4 GiB, wenn weder dies \
         noch `gpu_memory_utilization` gesetzt ist.",
    )
    .of(Vllm)
    .unit("bytes"),
    // Several attention backends demand 32, 64 or 128 and refuse to start with an explicit 16.
    Field::new(
        "block_size",
        "memory",
        Kind::IntOneOf(&[1, 8, 16, 32]),
        Flag("--block-size"),
        "Tokens in a block of the KV cache. 16 is not sent: the engine takes it by itself if its attention backend can, \
         and some backends need more.",
        "Tokens in einem Block des KV-Caches. 16 wird nicht übergeben: Die Engine nimmt es von selbst, wenn ihr \
         Attention-Backend das kann, und manche Backends brauchen mehr.",
    )
    .of(Vllm)
    .unit("tokens")
    .default(Default::Int(16))
    .own(Own::LeftOut),
    Field::new(
        "enforce_eager",
        "batching",
        Kind::Bool,
        // Off is the engine's default. It is not certain whether versions before those measured know the negative
        // option.
        Since(&[
            (V_FIRST, [0, 10, 0], Switch("--enforce-eager", None)),
            ([0, 10, 0], V_LAST, Switch("--enforce-eager", Some("--no-enforce-eager"))),
        ]),
        "Runs without CUDA graphs: the engine starts faster and generates slower.",
        "Läuft ohne CUDA-Graphen: Die Engine startet schneller und erzeugt langsamer.",
    )
    .of(Vllm)
    .default(Default::Bool(true))
    .own(Own::Other("`false`: CUDA graphs are used"))
    .tuned(
        Default::Bool(false),
        "CUDA graphs make each token cheaper; starts take longer, and the graphs take some memory of the GPU",
        "CUDA-Graphen machen jedes Token billiger; Starts dauern länger, und die Graphen belegen etwas Speicher der \
         GPU",
    ),
    Field::new(
        "cuda_graph_sizes",
        "batching",
        Kind::Text { max: 500 },
        Since(&[
            (V_FIRST, [0, 11, 1], Words("--cuda-graph-sizes")),
            ([0, 11, 1], V_LAST, Words("--cudagraph-capture-sizes")),
        ]),
        "Batch sizes for which CUDA graphs are captured, comma-separated; only without `enforce_eager`.",
        "Batchgrößen, für die CUDA-Graphen aufgezeichnet werden, durch Kommas getrennt; nur ohne `enforce_eager`.",
    )
    .examples(&["1,2,4,8"])
    .of(Vllm),
    Field::new(
        "cpu_offload_gb",
        "memory",
        Kind::Float { min: 0.0, max: 100_000.0 },
        Flag("--cpu-offload-gb"),
        "Part of each GPU's weights that is kept in CPU memory.",
        "Teil der Gewichte jeder GPU, der im Arbeitsspeicher bleibt.",
    )
    .of(Vllm)
    .unit("GiB"),
    Field::new(
        "swap_space_gb",
        "memory",
        Kind::Float { min: 0.0, max: 100_000.0 },
        Since(&[
            (V_FIRST, [0, 18, 0], Flag("--swap-space")),
            ([0, 18, 0], V_LAST, Positive("--kv-offloading-size")),
        ]),
        "CPU memory into which the KV cache may spill.",
        "Arbeitsspeicher, in den der KV-Cache ausweichen darf.",
    )
    .of(Vllm)
    .unit("GiB"),
    Field::new(
        "enable_prefix_caching",
        "batching",
        Kind::Bool,
        Switch("--enable-prefix-caching", Some("--no-enable-prefix-caching")),
        "Reuses the KV cache for prompts that begin alike.",
        "Verwendet den KV-Cache für Prompts wieder, die gleich beginnen.",
    )
    .of(Vllm),
    Field::new(
        "prefix_caching_hash_algo",
        "batching",
        Kind::OneOf(&["builtin", "sha256", "sha256_cbor", "sha256_cbor_64bit", "xxhash", "xxhash_cbor"]),
        Choice(
            "--prefix-caching-hash-algo",
            &[
                ("builtin", V_FIRST, [0, 10, 2]),
                ("sha256_cbor_64bit", [0, 10, 0], [0, 10, 2]),
                ("sha256_cbor", [0, 10, 2], V_LAST),
                ("xxhash", [0, 13, 0], V_LAST),
                ("xxhash_cbor", [0, 13, 0], V_LAST),
            ],
        ),
        "Hash function for cached blocks.",
        "Hashfunktion für Blöcke im Cache.",
    )
    .of(Vllm),
    Field::new(
        "enable_chunked_prefill",
        "batching",
        Kind::Bool,
        Switch("--enable-chunked-prefill", Some("--no-enable-chunked-prefill")),
        "Cuts long prompts into pieces; between them other requests generate.",
        "Zerlegt lange Prompts in Stücke; dazwischen erzeugen andere Anfragen weiter.",
    )
    .of(Vllm),
    Field::new(
        "attention_backend",
        "expert",
        Kind::Text { max: 64 },
        Since(&[([0, 13, 0], V_LAST, Flag("--attention-backend"))]),
        "Attention implementation.",
        "Implementierung der Attention.",
    )
    .examples(&["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN"])
    .of(Vllm),
    Field::new(
        "trust_remote_code",
        "expert",
        Kind::Bool,
        Switch("--trust-remote-code", None),
        "Runs Python code that comes with the checkpoint.",
        "Führt Python-Code aus, der mit dem Checkpoint kommt.",
    )
    .of(Vllm)
    .owner(),
    Field::new(
        "gguf_weight_format",
        "source",
        Kind::OneOf(&["auto", "gguf", "ggml"]),
        Special,
        "Load format of GGUF on vLLM (up to 0.23).",
        "Ladeformat von GGUF mit vLLM (bis 0.23).",
    )
    .becomes("`--load-format gguf` <0.24.0")
    .of(Vllm),
    Field::new(
        "reasoning_parser",
        "chat",
        Kind::Text { max: 64 },
        Flag("--reasoning-parser"),
        "Separates reasoning from the answer.",
        "Trennt die Überlegungen des Modells von der Antwort.",
    )
    .examples(&["deepseek_r1", "qwen3"])
    .of(Vllm),
    Field::new(
        "tool_call_parser",
        "chat",
        Kind::Text { max: 64 },
        Flag("--tool-call-parser"),
        "Reads tool calls out of the answer; `enable_auto_tool_choice` needs it.",
        "Liest Tool-Aufrufe aus der Antwort; `enable_auto_tool_choice` braucht ihn.",
    )
    .examples(&["hermes", "llama3_json", "mistral"])
    .of(Vllm),
    Field::new(
        "enable_auto_tool_choice",
        "chat",
        Kind::Bool,
        Switch("--enable-auto-tool-choice", None),
        "Lets the model choose tools by itself.",
        "Lässt das Modell Tools selbst auswählen.",
    )
    .of(Vllm),
];
