//! Failures of vLLM: its arguments and the process. The texts are from vLLM 0.32.0: provoked with its CPU build where
//! possible, else taken from its sources.

use super::{
    signature::{
        Advice, Signature,
        Try::{Bool, Captured, Made, Text, Unset},
        When, change, set, set_flag, tip,
    },
    values,
};
use crate::model::EngineKind::Vllm;

const fn log(
    id: &'static str,
    patterns: &'static [&'static str],
    title: &'static str,
    message: &'static str,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, Some(Vllm), When::Log(patterns), title, message, fixes)
}

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "vllm_unknown_argument",
        &["error: unrecognized arguments: {flag}"],
        "Argument unknown to this version",
        "this version of vLLM does not know `{flag}`: it was removed, or comes with a newer version",
        &[
            set_flag(Made(values::leave_out), "change or unset `{field}`, which becomes `{flag}`"),
            change(
                "engine_image",
                "or use a version of the engine that knows it; its tag should tell the version",
            ),
        ],
    ),
    log(
        "vllm_invalid_choice",
        &["error: argument {flag}: invalid choice: '{value}' (choose from {allowed})"],
        "Value not allowed",
        "`{value}` is no value of `{flag}`; allowed are {allowed}",
        &[set_flag(Unset, "choose one of the allowed values, or unset `{field}`")],
    ),
    log(
        "vllm_invalid_value",
        &["error: argument {flag}: invalid {type} value: '{value}'", "error: argument {flag}: {why}"],
        "Value not understood",
        "`{flag}` can't be set to this value",
        &[set_flag(Unset, "correct `{field}`, or unset it")],
    ),
    log(
        "vllm_value_out_of_range",
        &["{flag}: Input should be {allowed} [type={type}, input_value={value}, input_type"],
        "Value out of range",
        "`{flag}` should be {allowed}, and is {value}",
        &[set_flag(Unset, "correct `{field}`, or unset it")],
    ),
    log(
        "vllm_context_too_long",
        &[
            "User-specified max_model_len ({asked#}) is greater than the derived max_model_len ({source}={limit#}",
        ],
        "Context longer than the model's",
        "the model was made for contexts of at most {limit} tokens, and {asked} are asked for",
        &[
            set("max_model_len", Captured("limit"), "use the model's own length"),
            tip("for longer contexts, choose a checkpoint whose `config.json` has RoPE scaling"),
        ],
    ),
    log(
        "vllm_batch_below_context",
        &["max_num_batched_tokens ({batch#}) is smaller than max_model_len ({length#})"],
        "Batch smaller than the context",
        "without chunked prefill a step must hold a whole context of {length} tokens, and it holds {batch}",
        &[
            set("max_num_batched_tokens", Captured("length"), "let a step hold a whole context"),
            set("enable_chunked_prefill", Bool(true), "or cut long prompts into pieces"),
        ],
    ),
    log(
        "vllm_batch_below_sequences",
        &["max_num_batched_tokens ({batch#}) must be greater than or equal to max_num_seqs ({sequences#})"],
        "Batch smaller than the number of sequences",
        "a step holds {batch} tokens, which is less than one for each of {sequences} sequences",
        &[
            set("max_num_seqs", Captured("batch"), "generate fewer sequences together"),
            set("max_num_batched_tokens", Captured("sequences"), "or let a step hold more tokens"),
        ],
    ),
    log(
        "vllm_unknown_attention_backend",
        &["Unknown attention backend: '{name}'"],
        "Attention backend unknown",
        "this version of vLLM has no attention backend `{name}`",
        &[set("attention_backend", Unset, "unset it, or choose one that the log lists")],
    ),
    log(
        "vllm_block_size_not_supported",
        &["No common block size for {size#}"],
        "Block size not supported",
        "the attention implementation can't use blocks of {size} tokens",
        &[set("block_size", Unset, "unset it: the engine chooses")],
    ),
    log(
        "vllm_unknown_tool_parser",
        &["invalid tool call parser: {name} ("],
        "Tool parser unknown",
        "this version of vLLM has no tool call parser `{name}`",
        &[set(
            "tool_call_parser",
            Unset,
            "choose one that the log lists, or unset it with `enable_auto_tool_choice`",
        )],
    ),
    log(
        "vllm_tool_choice_needs_parser",
        &["--enable-auto-tool-choice requires --tool-call-parser"],
        "Tool choice without a parser",
        "`enable_auto_tool_choice` needs a `tool_call_parser`",
        &[
            change("tool_call_parser", "choose the parser for this family of models"),
            set("enable_auto_tool_choice", Bool(false), "or switch tool choice off"),
        ],
    ),
    log(
        "vllm_unknown_reasoning_parser",
        &["Reasoning parser '{name}' not found", "invalid reasoning parser: {name} ("],
        "Reasoning parser unknown",
        "this version of vLLM has no reasoning parser `{name}`",
        &[set("reasoning_parser", Unset, "choose one that the log lists, or unset it")],
    ),
    log(
        "vllm_lora_rank_too_high",
        &["LoRA rank {rank#} is greater than max_lora_rank {most#}"],
        "Adapter larger than prepared for",
        "an adapter has rank {rank}, and the engine prepares for {most}",
        &[
            change(
                "extra_args",
                "add `--max-lora-rank` with {rank}, or the next of 8, 16, 32, 64, 128, 256, 320 and 512 above it",
            ),
            change("lora_adapters", "or leave the adapter out"),
        ],
    ),
    log(
        "vllm_port_in_use",
        &["[Errno 98] Address already in use", "[Errno 98] error while attempting to bind"],
        "Port in use",
        "the engine's port is taken by another program, which happens only with the host's network",
        &[tip("stop the other program, or give the container its own network")],
    ),
    log(
        "vllm_compiler_missing",
        &["No working C++ compiler found", "Failed to find C compiler"],
        "Compiler missing in the image",
        "the engine wants to compile code, and its image holds no compiler",
        &[
            set("enforce_eager", Bool(true), "don't compile"),
            change("engine_image", "or use the engine's complete image"),
        ],
    ),
    log(
        "python_module_missing",
        &["ModuleNotFoundError: No module named '{name}'"],
        "Module missing in the image",
        "the engine needs the Python module `{name}`, which its image does not hold",
        &[change("engine_image", "use an image with `{name}`, or another version")],
    ),
    log(
        "vllm_worker_out_of_memory",
        &["died unexpectedly (exit code: -9)"],
        "Worker killed",
        "a process of the engine was killed, almost always because the host ran out of RAM",
        &[
            set("max_model_len", Made(values::half), "use a shorter context"),
            set("cpu_offload_gb", Unset, "keep fewer weights in RAM"),
            tip("`dmesg` on the host tells whether the kernel killed it for memory"),
        ],
    )
    .symptom(),
    log(
        "vllm_worker_illegal_instruction",
        &["died unexpectedly (exit code: -4)"],
        "Processor too old for the image",
        "a process of the engine used an instruction that this processor does not have",
        &[
            change("engine_image", "use another version or variant of the image"),
            set("dtype", Text("float32"), "on a CPU, calculate with 32-bit floats"),
        ],
    )
    .symptom(),
    log(
        "vllm_worker_crashed",
        &["died unexpectedly (exit code: {code})"],
        "Worker ended",
        "a process of the engine ended (code {code}) and took the engine with it",
        &[
            change("engine_image", "try another version of the engine"),
            tip("read the lines before it in the log"),
        ],
    )
    .symptom(),
    log(
        "vllm_engine_dead",
        &["EngineDeadError", "EngineCore encountered an issue", "EngineCore encountered a fatal error"],
        "Engine crashed",
        "the engine met an error while it ran and ended",
        &[
            tip("start the model again, and read the log above this line"),
            change("engine_image", "try another version"),
        ],
    )
    .symptom(),
];
