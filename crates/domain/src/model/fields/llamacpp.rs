//! Fields of the secondary engine. The builds in which llama-server knows a flag are taken from its source trees.

use super::{
    Default,
    Emit::{Flag, Since, Special, Switch},
    Field, Kind, Own, V_FIRST, V_LAST, Version,
};
use crate::model::EngineKind::Llamacpp;

/// Build in which `--flash-attn` began to take a value.
pub(crate) const FLASH_ATTN_VALUE: Version = [6343, 0, 0];
/// Build in which `--mlock` and `--no-mmap` gave way to `--load-mode` (seen: b10114 has it, b10875 lost the old ones).
pub(crate) const LOAD_MODE: Version = [10114, 0, 0];
/// Build in which `--draft-max` became `--spec-draft-n-max` (#22397, merged on 2026-04-28, when builds were at 8953;
/// 8982 is of 2026-04-30).
const SPEC_DRAFT: Version = [8960, 0, 0];
/// Build from which a draft model needs `--spec-type` (#22964, 2026-05-12; 9174 is of 2026-05-16). Older builds would
/// refuse the option; newer builds without it only don't speculate.
pub(crate) const SPEC_TYPE: Version = [9150, 0, 0];
/// Build that began to know `--override-tensor` (#11397, 2025-04-02).
const OVERRIDE_TENSOR: Version = [5028, 0, 0];
/// Build that began to know `--n-cpu-moe` (#15077, 2025-08-04).
const N_CPU_MOE: Version = [6088, 0, 0];
/// Build that began to know `--fit` (#16653, 2025-12).
pub(crate) const FIT: Version = [7400, 0, 0];
/// Build in which Jinja templates became the default of the server (#17524 and #17911, 2025-12).
pub(crate) const JINJA_DEFAULT: Version = [7400, 0, 0];
/// Build in which the server took up multimodal input again (#12898, 2025-05-09).
pub(crate) const MMPROJ: Version = [5331, 0, 0];
/// Options by the first build that has them, newest first. They show the age of a build whose `--help` is known but not
/// its number.
pub(crate) const OPTIONS: &[(&str, Version)] = &[
    ("--load-mode", LOAD_MODE),
    ("--spec-draft-n-max", SPEC_DRAFT),
    ("--fit", FIT),
    ("--n-cpu-moe", N_CPU_MOE),
    ("--override-tensor", OVERRIDE_TENSOR),
    ("--ctx-size", V_FIRST),
];
const CACHE_TYPES: Kind =
    Kind::OneOf(&["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]);

pub(super) const FIELDS: &[Field] = &[
    Field::new(
        "context_size",
        "memory",
        Kind::Int { min: 0, max: 100_000_000 },
        Flag("--ctx-size"),
        "Context length, shared by all slots; 0 means the model's own.",
        "Kontextlänge, die sich alle Slots teilen; 0 bedeutet die des Modells.",
    )
    .of(Llamacpp)
    .unit("tokens")
    .default(Default::Int(8192))
    .own(Own::Other("the context that the model was trained for; 4096 in builds of 2025"))
    .tuned_to_generate(
        Default::Int(32_768),
        "requests that are answered together share the context, and agents need a long one; the cache takes more memory",
        "gleichzeitig beantwortete Anfragen teilen sich den Kontext, und Agenten brauchen einen langen; der Cache \
         belegt mehr Speicher",
    ),
    Field::new(
        "ngl",
        "hardware",
        Kind::Int { min: 0, max: 9999 },
        Flag("--n-gpu-layers"),
        "Layers that are kept on GPUs. 999 means as many as fit; with `fit_memory` `off`, and in builds before b7400, it means \
         all. The default counts only where the container gets GPUs.",
        "Schichten, die auf GPUs liegen. 999 bedeutet so viele, wie passen; mit `fit_memory` `off` und in Builds vor \
         b7400 bedeutet es alle. Die Vorgabe gilt nur, wo der Container GPUs bekommt.",
    )
    .of(Llamacpp)
    .unit("layers")
    .default(Default::Int(999))
    .own(Own::Other("all that fit from b7400, none in older builds")),
    Field::new(
        "batch_size",
        "batching",
        Kind::Int { min: 1, max: 1_048_576 },
        Flag("--batch-size"),
        "Prompt tokens that the engine handles together; 128 to 2048 is advisable. For embeddings the default is the \
         context, at most 8192, since the engine refuses an input that is longer than a batch.",
        "Prompt-Tokens, die die Engine zusammen verarbeitet; ratsam sind 128 bis 2048. Für Embeddings ist die \
         Vorgabe der Kontext, höchstens 8192, da die Engine eine Eingabe ablehnt, die länger als ein Batch ist.",
    )
    .of(Llamacpp)
    .unit("tokens")
    .default_to_generate(Default::Int(512))
    .own(Own::Other("2048"))
    .tuned_to_generate(
        Default::Int(2048),
        "long prompts are read in fewer steps; the compute buffers grow little",
        "lange Prompts werden in weniger Schritten gelesen; die Rechenpuffer wachsen wenig",
    ),
    Field::new(
        "ubatch_size",
        "batching",
        Kind::Int { min: 1, max: 1_048_576 },
        Flag("--ubatch-size"),
        "Physical batch; embedding inputs must fit into it. Unset: 512, or, for embeddings, the same as the batch.",
        "Physischer Batch; Eingaben für Embeddings müssen hineinpassen. Nicht gesetzt: 512, oder für Embeddings so \
         groß wie der Batch.",
    )
    .of(Llamacpp)
    .unit("tokens"),
    // The engine's module writes this argument, because more threads than CPUs make the engine many times slower.
    Field::new(
        "threads",
        "hardware",
        Kind::Int { min: 1, max: 1024 },
        Special,
        "CPU threads; never more than the machine has CPUs.",
        "CPU-Threads; nie mehr, als die Maschine CPUs hat.",
    )
        .becomes("`--threads`, at most the CPUs of the machine")
    .of(Llamacpp)
    .default(Default::Int(32))
    .own(Own::Other("one for each core of the machine")),
    Field::new(
        "parallel_slots",
        "batching",
        Kind::Int { min: 1, max: 1024 },
        Flag("--parallel"),
        "Requests that the engine answers at the same time. Unset: the engine chooses.",
        "Anfragen, die die Engine gleichzeitig beantwortet. Nicht gesetzt: Die Engine wählt.",
    )
    .of(Llamacpp),
    Field::new(
        "tensor_split",
        "hardware",
        Kind::Text { max: 500 },
        Flag("--tensor-split"),
        "Share of each GPU, comma-separated; the shares add up to about 1.",
        "Anteil jeder GPU, durch Kommas getrennt; die Anteile ergeben zusammen etwa 1.",
    )
    .examples(&["0.5,0.5", "3,1"])
    .of(Llamacpp),
    Field::new(
        "split_mode",
        "hardware",
        Kind::OneOf(&["none", "layer", "row"]),
        Flag("--split-mode"),
        "How the model is split over GPUs.",
        "Wie das Modell auf GPUs verteilt wird.",
    )
    .of(Llamacpp),
    Field::new(
        "main_gpu",
        "hardware",
        Kind::Int { min: 0, max: 63 },
        Flag("--main-gpu"),
        "GPU that gets what is not split.",
        "GPU, die bekommt, was nicht verteilt wird.",
    )
    .of(Llamacpp),
    Field::new(
        "flash_attn",
        "memory",
        Kind::OneOf(&["on", "off", "auto"]),
        Special,
        "Flash attention; a quantised V cache needs it.",
        "Flash Attention; ein quantisierter V-Cache braucht sie.",
    )
        .becomes("`--flash-attn VALUE` from b6343; `--flash-attn` <b6343")
    .of(Llamacpp)
    .default(Default::Text("on"))
    .own(Own::Other("`auto`; `off` in builds before b6343")),
    Field::new("mlock", "memory", Kind::Bool, Special,
        "Locks the weights in RAM.",
        "Sperrt die Gewichte im RAM.")
        .becomes("with `no_mmap`: `--load-mode` from b10114; `--mlock` <b10114")
        .of(Llamacpp)
        .default(Default::Bool(true))
        .own(Own::Other("`false`"))
        .tuned(
            Default::Bool(false),
            "other programs can have the RAM of the weights; pages that were not used for long may have to be read again",
            "andere Programme können den RAM der Gewichte bekommen; lange nicht benutzte Seiten müssen vielleicht \
             erneut gelesen werden",
        ),
    Field::new("no_mmap", "memory", Kind::Bool, Special,
        "Reads the weights instead of mapping the file.",
        "Liest die Gewichte, statt die Datei in den Speicher abzubilden.")
        .becomes("with `mlock`: `--load-mode` from b10114; `--no-mmap` <b10114")
        .of(Llamacpp)
        .default(Default::Bool(true))
        .own(Own::Other("`false`"))
        .tuned(
            Default::Bool(false),
            "a file that was read before is mapped from the system's cache, so that starts are faster",
            "eine schon einmal gelesene Datei wird aus dem Cache des Systems abgebildet, sodass Starts schneller \
             sind",
        ),
    Field::new(
        "load_mode",
        "memory",
        Kind::OneOf(&["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]),
        Special,
        "How the weights get into memory; it overrides `mlock` and `no_mmap`.",
        "Wie die Gewichte in den Speicher kommen; hat Vorrang vor `mlock` und `no_mmap`.",
    )
        .becomes("`--load-mode` from b10114; `--mlock`, `--no-mmap` <b10114")
    .of(Llamacpp),
    Field::new(
        "numa",
        "hardware",
        Kind::OneOf(&["isolate", "distribute", "none"]),
        Special,
        "Placement on machines with several memory nodes.",
        "Platzierung auf Maschinen mit mehreren Speicherknoten.",
    )
        .becomes("`--numa`, not for `none`")
    .of(Llamacpp)
    .default(Default::Text("isolate"))
    .own(Own::Other("`none`"))
    .tuned(
        Default::Text("none"),
        "threads may run on all processors, not only on those of the memory node where the engine began",
        "Threads dürfen auf allen Prozessoren laufen, nicht nur auf denen des Speicherknotens, auf dem die Engine \
         begann",
    ),
    Field::new(
        "rope_freq_base",
        "context",
        Kind::Float { min: 1.0, max: 1e12 },
        Flag("--rope-freq-base"),
        "Base frequency of RoPE. Unset: the model's.",
        "Basisfrequenz von RoPE. Nicht gesetzt: die des Modells.",
    )
    .of(Llamacpp),
    Field::new(
        "rope_freq_scale",
        "context",
        Kind::Float { min: 0.001, max: 1000.0 },
        Flag("--rope-freq-scale"),
        "Frequency scale of RoPE. 1.0 is not sent: it stands for what the model's file says, which is 1.0 unless the model \
         was made for another scale.",
        "Frequenzskalierung von RoPE. 1.0 wird nicht übergeben: Es steht für das, was die Datei des Modells sagt, \
         nämlich 1.0, wenn das Modell nicht für eine andere Skalierung gemacht wurde.",
    )
    .of(Llamacpp)
    .default(Default::Float(1.0))
    .own(Own::LeftOut),
    Field::new("cache_type_k", "memory", CACHE_TYPES, Flag("--cache-type-k"),
        "Element type of the K cache.",
        "Datentyp der Elemente des K-Caches.")
        .of(Llamacpp),
    Field::new(
        "cache_type_v",
        "memory",
        CACHE_TYPES,
        Flag("--cache-type-v"),
        "Element type of the V cache; a quantised one needs `flash_attn`.",
        "Datentyp der Elemente des V-Caches; ein quantisierter braucht `flash_attn`.",
    )
    .of(Llamacpp),
    Field::new(
        "n_cpu_moe",
        "hardware",
        Kind::Int { min: 0, max: 9999 },
        Since(&[(N_CPU_MOE, V_LAST, Flag("--n-cpu-moe"))]),
        "Layers whose experts stay in RAM.",
        "Schichten, deren Experten im RAM bleiben.",
    )
    .of(Llamacpp)
    .unit("layers"),
    Field::new(
        "override_tensor",
        "expert",
        Kind::Text { max: 4000 },
        Since(&[(OVERRIDE_TENSOR, V_LAST, Flag("--override-tensor"))]),
        "Placement of tensors by name: `pattern=device`, comma-separated.",
        "Platzierung von Tensoren nach Namen: `pattern=device`, durch Kommas getrennt.",
    )
    .examples(&["exps=CPU", r"\.ffn_.*_exps\.=CPU,token_embd=CPU"])
    .of(Llamacpp),
    Field::new(
        "fit_memory",
        "memory",
        Kind::OneOf(&["on", "off"]),
        Since(&[(FIT, V_LAST, Flag("--fit"))]),
        "`on`: the engine chooses how many layers go to the GPUs, unless `ngl` is below 999, so that a file that is larger \
         than the GPUs runs with the rest of its layers in RAM. It is what builds from b7400 do by themselves, and is not \
         sent; older builds can't. `off`: all layers go to the GPUs, or as many as `ngl` says.",
        "`on`: Die Engine wählt, wie viele Schichten auf die GPUs kommen, außer wenn `ngl` unter 999 liegt; so läuft \
         eine Datei, die größer als die GPUs ist, mit den übrigen Schichten im RAM. Builds ab b7400 tun das von \
         selbst, und es wird nicht übergeben; ältere Builds können es nicht. `off`: Alle Schichten kommen auf die \
         GPUs, oder so viele, wie `ngl` sagt.",
    )
    .of(Llamacpp)
    .default(Default::Text("on"))
    .own(Own::LeftOut),
    Field::new(
        "draft_model_path",
        "speculative",
        Kind::ModelPath,
        Special,
        "Draft GGUF for speculative decoding, relative to the models base directory or below `/models/`.",
        "Entwurfsmodell (GGUF) für spekulatives Dekodieren, relativ zum Modellordner oder unter `/models/`.",
    )
        .becomes("`--model-draft`; from b9150 also `--spec-type draft-simple`")
    .of(Llamacpp),
    Field::new(
        "draft_n",
        "speculative",
        Kind::Int { min: 1, max: 1024 },
        Since(&[
            (V_FIRST, SPEC_DRAFT, Flag("--draft-max")),
            (SPEC_DRAFT, V_LAST, Flag("--spec-draft-n-max")),
        ]),
        "Tokens that are drafted at once.",
        "Tokens, die auf einmal entworfen werden.",
    )
    .of(Llamacpp)
    .unit("tokens")
    .default(Default::Int(16))
    .own(Own::Other("3; 16 in builds before the summer of 2026")),
    Field::new(
        "draft_p_min",
        "speculative",
        Kind::Float { min: 0.0, max: 1.0 },
        Since(&[
            (V_FIRST, SPEC_DRAFT, Flag("--draft-p-min")),
            (SPEC_DRAFT, V_LAST, Flag("--spec-draft-p-min")),
        ]),
        "Least probability at which a drafted token is tried.",
        "Geringste Wahrscheinlichkeit, mit der ein entworfenes Token versucht wird.",
    )
    .of(Llamacpp)
    .default(Default::Float(0.5))
    .own(Own::Other("0; 0.75 to 0.9 in older builds")),
    Field::new("mmproj", "adapters", Kind::Path, Special,
        "Projector file of a multimodal model.",
        "Projektordatei eines multimodalen Modells.")
        .becomes("`--mmproj` from b5331")
        .of(Llamacpp),
    Field::new(
        "pooling",
        "batching",
        Kind::OneOf(&["none", "mean", "cls", "last", "rank"]),
        Flag("--pooling"),
        "How the embeddings of all tokens become one. Unset: what the file says. A reranker needs `rank` here; without it, it \
         makes vectors and refuses to rank.",
        "Wie aus den Embeddings aller Tokens eines wird. Nicht gesetzt: was die Datei sagt. Ein Reranker braucht \
         hier `rank`; ohne das erzeugt er Vektoren und lehnt das Reranking ab.",
    )
    .of(Llamacpp),
    Field::new(
        "jinja",
        "chat",
        Kind::Bool,
        Since(&[
            // Jinja templates were off by default, and no option could switch them off explicitly.
            (V_FIRST, JINJA_DEFAULT, Switch("--jinja", None)),
            (JINJA_DEFAULT, V_LAST, Switch("--jinja", Some("--no-jinja"))),
        ]),
        "Renders chat templates with Jinja; tools need it.",
        "Setzt Chat-Vorlagen mit Jinja um; Tools brauchen das.",
    )
    .of(Llamacpp),
];
