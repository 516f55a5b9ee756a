//! Failures of checkpoints in vLLM. The texts are from vLLM 0.32.0 with transformers 5.19; each failure was provoked
//! with the CPU build.

use super::signature::{
    Advice, Signature,
    Try::{Bool, Unset},
    When, change, change_path, set, tip,
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
        "vllm_unknown_quantization",
        &[
            "Unknown quantization method: {method}. Must be one of {allowed}",
            "Unknown quantization method: {method}",
        ],
        "Quantisation unknown to this version",
        "this version of vLLM has no quantisation `{method}` (GGUF left in 0.24, bitsandbytes in 0.28)",
        &[
            set("quantization", Unset, "unset it: vLLM reads it from the checkpoint"),
            tip("GGUF files are for the llamacpp engine"),
        ],
    ),
    log(
        "vllm_not_quantized",
        &["Cannot find the config file for {method}"],
        "Checkpoint not quantised like this",
        "the checkpoint says nothing of `{method}`: it is not quantised that way",
        &[set("quantization", Unset, "unset it, or use a checkpoint that was quantised with `{method}`")],
    ),
    log(
        "vllm_quantization_mismatch",
        &["Quantization method specified in the model config ({method}) does not match"],
        "Checkpoint quantised differently",
        "the checkpoint is quantised with `{method}`, and another method is set",
        &[set("quantization", Unset, "unset it: vLLM reads it from the checkpoint")],
    ),
    log(
        "vllm_chat_template_not_found",
        &[
            "The supplied chat template string ({path}) appears path-like, but doesn't exist",
            "The supplied chat template ({path}) looks like a file path, but it failed to be opened",
        ],
        "Chat template not found",
        "there is no chat template `{path}`",
        &[change_path(
            "chat_template_file",
            "set it to a file below the models base directory, or put the template itself into `chat_template`",
        )],
    ),
    log(
        "vllm_lora_not_found",
        &["Loading lora {name} failed: No adapter found for {path}"],
        "LoRA adapter not found",
        "there is no adapter `{name}` in `{path}`",
        &[change("lora_adapters", "correct the folder of `{name}`; it holds `adapter_config.json`")],
    ),
    log(
        "vllm_gguf_not_supported",
        &["It looks like the config file at '{path}.gguf' is not a valid JSON file"],
        "GGUF is not for this engine",
        "vLLM 0.24 and later can't load GGUF files",
        &[
            tip("make the model anew with the llamacpp engine, which is made for GGUF"),
            change("local_path", "or point to a folder with safetensors files"),
        ],
    ),
    log(
        "vllm_config_invalid",
        &["It looks like the config file at '{path}' is not a valid JSON file"],
        "Damaged config.json",
        "`{path}` is not valid JSON: an incomplete download or a typing error",
        &[change("local_path", "download the file again")],
    ),
    log(
        "vllm_model_folder_not_found",
        &[
            "HFValidationError: Repo id must be in the form {form}: '{path}'",
            "Repo id must use alphanumeric chars",
        ],
        "Model folder not found",
        "the engine finds no such folder[: `{path}`]",
        &[
            change_path("local_path", "set it to a folder below the models base directory"),
            tip("check that the models base directory is the one that holds the model"),
        ],
    ),
    log(
        "vllm_config_missing",
        &[
            "Invalid repository ID or local directory specified: '{path}'",
            "{path} does not appear to have a file named config.json",
            "Unrecognized model in {path}. Should have a `model_type` key",
        ],
        "Not a model folder",
        "`{path}` has no usable `config.json`",
        &[
            change_path("local_path", "point to the folder that holds `config.json`, or download it again"),
            tip("a folder with only GGUF files is for the llamacpp engine"),
        ],
    ),
    log(
        "vllm_remote_code_not_trusted",
        &[
            "Please pass the argument `trust_remote_code=True`",
            "contains custom code which must be executed to correctly load the model",
            "requires you to execute the configuration file",
            "setting `trust_remote_code=True` in LLM",
        ],
        "The checkpoint wants to run its own code",
        "the checkpoint comes with Python code that the engine runs only when it is told to",
        &[
            set("trust_remote_code", Bool(true), "read the code, and if you trust it, allow it"),
            tip("a newer engine image may know the model without that code"),
        ],
    ),
    log(
        "vllm_architecture_unsupported",
        &[
            "The checkpoint you are trying to load has model type `{name}` but Transformers does not recognize",
            "Model architectures {name} are not supported for now",
            "Model architecture {name} is not supported in-tree anymore",
            "Model architectures {name} failed to be inspected",
        ],
        "Architecture unknown to this version",
        "this version of vLLM does not know models of the kind `{name}`",
        &[
            change("engine_image", "use a newer version of the engine"),
            tip("or look for the model as GGUF, for the llamacpp engine"),
        ],
    ),
    log(
        "vllm_tokenizer_not_found",
        &[
            "Couldn't instantiate the backend tokenizer",
            "Can't load tokenizer for '{path}'",
            "Failed to load the tokenizer",
        ],
        "Tokenizer missing",
        "the model folder has no usable tokenizer",
        &[
            change("tokenizer", "point to a folder or repository with the tokenizer of the original model"),
            change(
                "local_path",
                "or download `tokenizer.json` (or `tokenizer.model`) into the model's folder",
            ),
        ],
    ),
    log(
        "vllm_weights_missing",
        &["Cannot find any model weights with `{path}`"],
        "No weights in the folder",
        "`{path}` holds neither `*.safetensors` nor `*.bin` files: an incomplete download",
        &[change_path("local_path", "download the weights, or point to the folder that holds them")],
    ),
    log(
        "vllm_shard_missing",
        &["Weight files referenced in index but missing: {files}"],
        "Part of the weights missing",
        "the index of the weights names files that are not there: {files}",
        &[change("local_path", "download the missing files")],
    ),
    log(
        "vllm_weights_damaged",
        &[
            "SafetensorError: Error while deserializing header: {why}",
            "SafetensorError: {why}",
            "PytorchStreamReader failed",
        ],
        "Damaged weights",
        "a file of weights can't be read[ ({why})]: an incomplete download, or a git-lfs pointer instead of the file",
        &[change(
            "local_path",
            "download the files again; pointers of a few hundred bytes need `git lfs pull`",
        )],
    ),
    log(
        "vllm_no_chat_template",
        &[
            "default chat template is no longer allowed",
            "Cannot use chat template functions because tokenizer.chat_template is not set",
        ],
        "No chat template",
        "the model has no chat template, as base models do; the gateway turns chats into plain prompts",
        &[change("chat_template_file", "for better answers, set the template of the model's family")],
    )
    .notice(),
];
