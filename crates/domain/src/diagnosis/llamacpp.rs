//! Failures of llama-server: its arguments and the process. The texts are from b11434; nearly all failures were
//! provoked with it.

use super::{
    signature::{
        Advice, Signature, Target,
        Try::{Bool, Made, Text, Unset},
        When, change, set, set_flag, tip,
    },
    values,
};
use crate::model::EngineKind::Llamacpp;

const fn log(
    id: &'static str,
    patterns: &'static [&'static str],
    title: &'static str,
    message: &'static str,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, Some(Llamacpp), When::Log(patterns), title, message, fixes)
}

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "llamacpp_argument_removed",
        &["error while handling argument \"{flag}\": the argument has been removed. {hint}"],
        "Argument unknown to this version",
        "this build of llama.cpp no longer takes `{flag}` ({hint})",
        &[
            set_flag(Made(values::leave_out), "change or unset `{field}`, which becomes `{flag}`"),
            change(
                "engine_image",
                "or use an image whose tag tells its build, so that the gateway writes the new form",
            ),
        ],
    ),
    log(
        "llamacpp_unknown_argument",
        &["error: invalid argument: {flag}"],
        "Argument unknown to this version",
        "this build of llama.cpp does not know `{flag}`: it was removed, or comes with a newer build",
        &[
            set_flag(Made(values::leave_out), "change or unset `{field}`, which becomes `{flag}`"),
            change(
                "engine_image",
                "or use an image whose tag tells its build, so that the gateway writes what it knows",
            ),
        ],
    ),
    log(
        "llamacpp_cache_type_not_supported",
        &["error while handling argument \"{flag}\": Unsupported cache type: {value}"],
        "Cache type not supported",
        "the KV cache can't have elements of type `{value}`",
        &[set_flag(Text("f16"), "use a type that the log lists")],
    ),
    log(
        "llamacpp_unknown_buffer_type",
        &["error while handling argument \"{flag}\": unknown buffer type"],
        "Device unknown to this build",
        "`override_tensor` names a device that this build does not have, as `CUDA0` in an image for CPUs",
        &[
            set_flag(Unset, "name a device that the log lists, or unset it"),
            change("engine_image", "or use the image for CUDA"),
        ],
    ),
    log(
        "llamacpp_unknown_device",
        &["error while handling argument \"{flag}\": invalid device: {value}"],
        "Device unknown to this build",
        "this build has no device `{value}`",
        &[set_flag(Unset, "unset it, or use the image for CUDA")],
    ),
    log(
        "llamacpp_argument_file_not_found",
        &["error while handling argument \"{flag}\": error: failed to open file '{path}'"],
        "File not found",
        "the engine finds no file `{path}`",
        &[set_flag(Unset, "set `{field}` to a file below the models base directory, or unset it")],
    ),
    log(
        "llamacpp_invalid_value",
        &[
            "error while handling argument \"{flag}\": error: {why}",
            "error while handling argument \"{flag}\": {why}",
            "error while handling environment variable \"{flag}\": {why}",
            "unknown value for {flag}: '{value}'",
        ],
        "Value not understood",
        "`{flag}` can't be set to this value[ ({why})]; the log shows what it takes",
        &[
            set_flag(Unset, "correct `{field}`, or unset it"),
            change("engine_image", "or use a build that takes it"),
        ],
    ),
    log(
        "llamacpp_kv_quant_needs_flash_attn",
        &["quantized V cache requires flash_attn", "V cache quantization requires flash_attn"],
        "Cache type needs flash attention",
        "a quantised V cache works only with flash attention",
        &[
            set("flash_attn", Text("on"), "switch flash attention on"),
            set("cache_type_v", Text("f16"), "or don't quantise the V cache"),
        ],
    ),
    log(
        "llamacpp_kv_quant_block",
        &["K cache type {type} with block size {block#} does not divide {what}={size#}"],
        "Cache type does not fit the model",
        "the model's heads have {size} values, which do not fit into blocks of {block} for `{type}`",
        &[set("cache_type_k", Text("f16"), "don't quantise the K cache")],
    ),
    log(
        "llamacpp_kv_quant_block_v",
        &["V cache type {type} with block size {block#} does not divide {what}={size#}"],
        "Cache type does not fit the model",
        "the model's heads have {size} values, which do not fit into blocks of {block} for `{type}`",
        &[set("cache_type_v", Text("f16"), "don't quantise the V cache")],
    ),
    // These patterns share one signature: the engine may exit before its first lines are written out, so any of them
    // can be missing from the log.
    log(
        "llamacpp_chat_template_invalid",
        &[
            "common_chat_templates_init: error: {why}",
            "chat template parsing error: {why}",
            "error: the supplied chat template is {why}",
        ],
        "Chat template not usable",
        "llama-server can't use the chat template: {why}",
        &[
            Advice {
                text: "correct the template, or use the model's own if it has one",
                target: Target::FirstSet(&["chat_template_file", "chat_template"]),
                value: Made(values::unset),
            },
            Advice {
                text: "or use a built-in one",
                target: Target::Helping("chat_template", values::own_template),
                value: Text("chatml"),
            },
            set("jinja", Bool(true), "templates other than the built-in ones need Jinja"),
        ],
    ),
    log(
        "llamacpp_port_in_use",
        &["couldn't bind HTTP server socket, hostname: {host}, port: {port#}"],
        "Port in use",
        "the engine can't listen on port {port}",
        &[tip(
            "stop the other program on this port; with its own network the container has the port to itself",
        )],
    ),
    log(
        "llamacpp_too_many_threads",
        &["what():  Resource temporarily unavailable"],
        "Too many threads or slots",
        "the system refuses to start more threads",
        &[
            set("parallel_slots", Unset, "answer fewer requests together"),
            set("threads", Unset, "use fewer threads"),
        ],
    ),
    log(
        "llamacpp_assertion",
        &["GGML_ASSERT({what}) failed"],
        "Engine crashed",
        "llama.cpp stopped because something can't be: `{what}`",
        &[
            set("ubatch_size", Unset, "unset batch sizes and other expert settings"),
            change("engine_image", "try another build of the engine"),
        ],
    ),
    log(
        "llamacpp_no_model",
        &["router mode enabled"],
        "No model given",
        "llama-server was started without a model, so it serves none",
        &[
            change("local_path", "set it to a `.gguf` file"),
            change("extra_args", "remove what hides `--model`"),
        ],
    )
    .notice(),
    log(
        "llamacpp_draft_model_unusable",
        &[
            "failed to initialize speculative decoding context: {why}",
            "the target and draft vocabs are not compatible",
        ],
        "Draft model not used",
        "the draft model does not go with the model, so answers are not sped up",
        &[set("draft_model_path", Unset, "use a draft model of the same family, or unset it")],
    )
    .notice(),
    log(
        "llamacpp_not_generative",
        &["the current context does not support logits computation"],
        "Not a model for chats",
        "the model makes embeddings and can't generate text",
        &[set("task", Text("embed"), "make the model anew with the task `embed`")],
    )
    .notice(),
];
