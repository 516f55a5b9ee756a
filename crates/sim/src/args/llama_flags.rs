//! The flags of `llama-server`, with the builds that know them.
//!
//! Presence was measured in source trees of six dates and in b11434. Builds between the measured
//! trees are reckoned from the dates of the changes (b6343 = 2025-09-01, b10114 = 2026-07-24), so
//! a bound may be off by some dozens of builds; the bounds named in comments are reported ones.

use super::{Flag, Value};
use crate::flavour::Version;
use Value::{Choice, Float, Int, Switch, Text};

const fn b(number: u32) -> Version {
    Version::build(number)
}

const fn f(names: &'static [&'static str], value: Value) -> Flag {
    Flag::new(names, value)
}

/// First build where `--flash-attn` takes a value.
pub(crate) const FLASH_ATTN_VALUE: Version = b(6343);
/// First build that starts as a router when no model is given.
pub(crate) const ROUTER: Version = b(8200);
/// First build where `--jinja` is on by default and the default number of slots is 4.
pub(crate) const MODERN_DEFAULTS: Version = b(8200);
/// First build that wants the key for `/v1/models`.
pub(crate) const MODELS_NEED_KEY: Version = b(10_000);
const SPEC_NAMES: Version = b(9108);
const LOAD_MODE: Version = b(10_114);
const NO_MLOCK: Version = b(10_875);

const CACHE_TYPES: &[&str] = &["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"];
const NO_DRAFT_MAX: &str = "the argument has been removed. use --spec-draft-n-max or --spec-ngram-mod-n-max";
const NO_DRAFT_MIN: &str = "the argument has been removed. use --spec-draft-n-min or --spec-ngram-mod-n-min";

pub(crate) const FLAGS: &[Flag] = &[
    f(&["-h", "--help", "--usage"], Switch).help("-h,    --help, --usage                  print usage and exit"),
    f(&["--version"], Switch).help("--version                               show version and build info"),
    f(&["--host"], Text).env("LLAMA_ARG_HOST"),
    f(&["--port"], Int).env("LLAMA_ARG_PORT"),
    f(&["--api-key"], Text),
    f(&["--api-key-file"], Text),
    f(&["-m", "--model"], Text).env("LLAMA_ARG_MODEL"),
    f(&["-hf", "-hfr", "--hf-repo"], Text).env("LLAMA_ARG_HF_REPO"),
    f(&["-hff", "--hf-file"], Text).env("LLAMA_ARG_HF_FILE"),
    f(&["-hft", "--hf-token"], Text).env("HF_TOKEN"),
    f(&["-mu", "--model-url"], Text).env("LLAMA_ARG_MODEL_URL"),
    f(&["-mm", "--mmproj"], Text).env("LLAMA_ARG_MMPROJ").since(b(5300)),
    f(&["--offline"], Switch).since(b(5500)),
    f(&["-a", "--alias"], Text).env("LLAMA_ARG_ALIAS"),
    f(&["--embedding", "--embeddings"], Switch).env("LLAMA_ARG_EMBEDDINGS"),
    f(&["--reranking", "--rerank"], Switch).env("LLAMA_ARG_RERANKING"),
    f(&["--pooling"], Choice(&["none", "mean", "cls", "last", "rank"])).env("LLAMA_ARG_POOLING"),
    f(&["-c", "--ctx-size"], Int).env("LLAMA_ARG_CTX_SIZE").help(
        "-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)\n                                        (env: LLAMA_ARG_CTX_SIZE)",
    ),
    f(&["-np", "--parallel"], Int).env("LLAMA_ARG_N_PARALLEL"),
    f(&["-kvu", "--kv-unified"], Switch).since(b(5900)),
    f(&["-cb", "--cont-batching"], Switch),
    f(&["-nocb", "--no-cont-batching"], Switch),
    f(&["-ngl", "--gpu-layers", "--n-gpu-layers"], Text).env("LLAMA_ARG_N_GPU_LAYERS"),
    f(&["-b", "--batch-size"], Int).env("LLAMA_ARG_BATCH").help(
        "-b,    --batch-size N                   logical maximum batch size (default: 2048)\n                                        (env: LLAMA_ARG_BATCH)",
    ),
    f(&["-ub", "--ubatch-size"], Int).env("LLAMA_ARG_UBATCH"),
    f(&["-t", "--threads"], Int).env("LLAMA_ARG_THREADS"),
    f(&["-tb", "--threads-batch"], Int),
    f(&["--threads-http"], Int).env("LLAMA_ARG_THREADS_HTTP"),
    f(&["-n", "--predict", "--n-predict"], Int).env("LLAMA_ARG_N_PREDICT"),
    f(&["-ts", "--tensor-split"], Text).env("LLAMA_ARG_TENSOR_SPLIT"),
    f(&["-sm", "--split-mode"], Choice(&["none", "layer", "row", "tensor"])).env("LLAMA_ARG_SPLIT_MODE"),
    f(&["-mg", "--main-gpu"], Int).env("LLAMA_ARG_MAIN_GPU"),
    f(&["-dev", "--device"], Text).env("LLAMA_ARG_DEVICE"),
    f(&["-fa", "--flash-attn"], Switch).until(FLASH_ATTN_VALUE).env("LLAMA_ARG_FLASH_ATTN"),
    f(&["-fa", "--flash-attn"], Choice(&["on", "off", "auto", "1", "0", "-1", "true", "false", "enabled", "disabled"]))
        .since(FLASH_ATTN_VALUE)
        .env("LLAMA_ARG_FLASH_ATTN")
        .help(
            "-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')\n                                        (env: LLAMA_ARG_FLASH_ATTN)",
        ),
    // Removed on 2026-09-09; b10875 is the first build reported without them.
    f(&["--mlock"], Switch).until(NO_MLOCK).env("LLAMA_ARG_MLOCK"),
    f(&["--no-mmap"], Switch).until(NO_MLOCK).env("LLAMA_ARG_NO_MMAP"),
    f(&["--mmap"], Switch).since(b(7600)).until(NO_MLOCK),
    f(&["-dio", "--direct-io"], Switch).since(b(7600)).until(NO_MLOCK),
    f(&["-lm", "--load-mode"], Choice(&["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]))
        .since(LOAD_MODE)
        .env("LLAMA_ARG_LOAD_MODE")
        .help(
            "-lm,   --load-mode MODE                 model loading mode (default: auto)\n                                        - auto: mmap, unless a device does not support it\n                                        - none: no special loading mode\n                                        - mmap: memory-map model\n                                        - mlock: force system to keep model in RAM\n                                        - mmap+mlock: mmap + keep model in RAM\n                                        - dio: use DirectIO if available\n                                        (env: LLAMA_ARG_LOAD_MODE)",
        ),
    f(&["--numa"], Choice(&["distribute", "isolate", "numactl"])).env("LLAMA_ARG_NUMA").help(
        "--numa TYPE                             attempt optimizations that help on some NUMA systems\n                                        - distribute: spread execution evenly over all nodes\n                                        - isolate: only spawn threads on CPUs on the node that execution\n                                        started on\n                                        - numactl: use the CPU map provided by numactl\n                                        (env: LLAMA_ARG_NUMA)",
    ),
    f(&["--rope-scaling"], Choice(&["none", "linear", "yarn"])),
    f(&["--rope-freq-base"], Float).env("LLAMA_ARG_ROPE_FREQ_BASE"),
    f(&["--rope-freq-scale"], Float).env("LLAMA_ARG_ROPE_FREQ_SCALE"),
    f(&["-ctk", "--cache-type-k"], Choice(CACHE_TYPES)).env("LLAMA_ARG_CACHE_TYPE_K").help(
        "-ctk,  --cache-type-k TYPE              KV cache data type for K\n                                        allowed values: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1\n                                        (default: f16)\n                                        (env: LLAMA_ARG_CACHE_TYPE_K)",
    ),
    f(&["-ctv", "--cache-type-v"], Choice(CACHE_TYPES)).env("LLAMA_ARG_CACHE_TYPE_V").help(
        "-ctv,  --cache-type-v TYPE              KV cache data type for V\n                                        allowed values: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1\n                                        (default: f16)\n                                        (env: LLAMA_ARG_CACHE_TYPE_V)",
    ),
    f(&["-cmoe", "--cpu-moe"], Switch).since(b(6082)),
    f(&["-ncmoe", "--n-cpu-moe"], Int).since(b(6082)).env("LLAMA_ARG_N_CPU_MOE"),
    f(&["-ot", "--override-tensor"], Text).since(b(5028)).env("LLAMA_ARG_OVERRIDE_TENSOR"),
    f(&["-fit", "--fit"], Choice(&["on", "off"])).since(b(7400)).env("LLAMA_ARG_FIT"),
    f(&["-fitt", "--fit-target"], Text).since(b(7400)).env("LLAMA_ARG_FIT_TARGET"),
    f(&["-fitc", "--fit-ctx"], Int).since(b(7400)).env("LLAMA_ARG_FIT_CTX"),
    f(&["-md", "--model-draft", "--spec-draft-model"], Text).env("LLAMA_ARG_MODEL_DRAFT"),
    f(&["--spec-type"], Text).since(b(8200)).env("LLAMA_ARG_SPEC_TYPE"),
    f(&["--draft", "--draft-n", "--draft-max"], Int)
        .until(SPEC_NAMES)
        .removed(NO_DRAFT_MAX)
        .env("LLAMA_ARG_DRAFT_MAX")
        .help(
            "--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or\n                                        --spec-ngram-mod-n-max\n                                        (env: LLAMA_ARG_DRAFT_MAX)",
        ),
    f(&["--draft-min", "--draft-n-min"], Int).until(SPEC_NAMES).removed(NO_DRAFT_MIN).env("LLAMA_ARG_DRAFT_MIN").help(
        "--draft-min, --draft-n-min N            the argument has been removed. use --spec-draft-n-min or\n                                        --spec-ngram-mod-n-min\n                                        (env: LLAMA_ARG_DRAFT_MIN)",
    ),
    f(&["--spec-draft-n-max"], Int).since(SPEC_NAMES),
    f(&["--spec-draft-n-min"], Int).since(SPEC_NAMES),
    f(&["--draft-p-min"], Float).until(SPEC_NAMES).env("LLAMA_ARG_DRAFT_P_MIN"),
    f(&["--spec-draft-p-min", "--draft-p-min"], Float).since(SPEC_NAMES),
    f(&["-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"], Text),
    f(&["--lora"], Text),
    f(&["--metrics"], Switch).env("LLAMA_ARG_ENDPOINT_METRICS"),
    f(&["--slots"], Switch),
    f(&["--no-slots"], Switch),
    f(&["--props"], Switch),
    f(&["--no-webui"], Switch),
    f(&["--no-ui"], Switch).since(b(9400)),
    f(&["--jinja"], Switch),
    f(&["--no-jinja"], Switch).since(b(8200)),
    f(&["--chat-template"], Text),
    f(&["--chat-template-file"], Text),
    f(&["--reasoning-format"], Text),
    f(&["--reasoning-budget"], Int).since(b(5700)),
    f(&["--cache-ram", "-cram"], Int).since(b(6700)),
    f(&["--no-warmup"], Switch),
    f(&["--warmup"], Switch).since(b(7600)),
    f(&["--sleep-idle-seconds"], Int).since(b(7600)),
    f(&["-to", "--timeout"], Int).env("LLAMA_ARG_TIMEOUT"),
    f(&["--sse-ping-interval"], Int).since(b(9600)),
    f(&["--log-jsonl"], Switch).since(b(10_800)),
    f(&["--log-disable"], Switch),
    f(&["--log-colors"], Text).since(b(6343)),
    f(&["--log-timestamps"], Switch),
    f(&["--log-prefix"], Switch),
    f(&["-lv", "--verbosity"], Int),
    f(&["-v", "--verbose"], Switch),
    f(&["-s", "--seed"], Int),
    f(&["--temp"], Float),
    f(&["--top-k"], Int),
    f(&["--top-p"], Float),
    f(&["--min-p"], Float),
];
