//! Failures of GGUF files. The texts are from llama.cpp b11434; nearly all failures were provoked with it.

use super::{
    signature::{
        Advice, Signature,
        Try::{Made, Unset},
        When, change, change_path, set, tip,
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

const AGAIN: Advice = change("local_path", "download the file again, and compare its size with the source");
const NEWER: Advice = change("engine_image", "use a newer version of the engine");

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "llamacpp_split_part_missing",
        &["failed to open GGUF file '{path}-of-{count#}.gguf' (No such file"],
        "Part of the model missing",
        "`{path}-of-{count}.gguf` is not there",
        &[
            change("local_path", "download all {count} parts into the same folder"),
            tip("all parts must keep their names"),
        ],
    ),
    log(
        "llamacpp_file_not_found",
        &[
            "failed to open GGUF file '{path}' (No such file or directory)",
            "error loading model: failed to open {path}: No such file or directory",
        ],
        "File not found",
        "the engine finds no file `{path}`",
        &[
            change_path("local_path", "set `{field}` to a file below the models base directory"),
            tip("check that the models base directory is the one that holds the model"),
        ],
    ),
    log(
        "llamacpp_file_not_readable",
        &[
            "failed to open GGUF file '{path}' (Permission denied)",
            "failed to open {path}: Permission denied",
        ],
        "File not readable",
        "the engine may not read `{path}`",
        &[change_path(
            "local_path",
            "make the file readable for all (`chmod a+r`) and its folders enterable (`chmod a+x`)",
        )],
    ),
    log(
        "llamacpp_git_lfs_pointer",
        &["invalid magic characters: 'vers', expected 'GGUF'"],
        "A git-lfs pointer, not a model",
        "the file is a small text that stands for the model in a git repository",
        &[change("local_path", "fetch the real file (`git lfs pull`, or download it)")],
    ),
    log(
        "llamacpp_html_page",
        &[
            "invalid magic characters: '<!DO', expected 'GGUF'",
            "invalid magic characters: '<htm', expected 'GGUF'",
            "invalid magic characters: '<?xm', expected 'GGUF'",
        ],
        "A web page, not a model",
        "the file is a web page: the download gave an error page or needed a login",
        &[AGAIN],
    ),
    log(
        "llamacpp_not_gguf",
        &["invalid magic characters: '{magic}', expected 'GGUF'", "invalid magic number {magic}"],
        "Not a GGUF file",
        "the file begins with `{magic}` instead of `GGUF`: another format, an old one (GGML), or damage",
        &[change_path("local_path", "use a GGUF file; old GGML files must be converted again")],
    ),
    log(
        "llamacpp_file_empty",
        &["failed to read magic"],
        "Empty file or a folder",
        "nothing can be read from the model's file: it is empty, or `local_path` is a folder",
        &[change("local_path", "point to the `.gguf` file itself, and download it again if it is empty")],
    ),
    log(
        "llamacpp_gguf_too_new",
        &["this GGUF file is version {version#} but this software only supports up to version {known#}"],
        "GGUF version unknown",
        "the file says it is GGUF version {version}, and this build reads up to {known}",
        &[NEWER, AGAIN],
    ),
    log(
        "llamacpp_big_endian",
        &["is extremely large, is there a mismatch between the host and model endianness"],
        "File for another kind of processor",
        "the file was written for big-endian processors (such as s390x)",
        &[change(
            "local_path",
            "use the usual (little-endian) file, or convert it with `gguf_convert_endian.py`",
        )],
    ),
    log(
        "llamacpp_file_truncated",
        &[
            "tensor '{tensor}' data is not within the file bounds",
            "exceeds remaining file size",
            "failed to read key-value pairs",
            "failed to read tensor info",
        ],
        "File incomplete",
        "the file ends before its contents do: the download was interrupted, or the disk was full",
        &[AGAIN],
    ),
    log(
        "llamacpp_tensor_type_unknown",
        &["tensor '{tensor}' has invalid ggml type {type#}", "tensor '{tensor}' of type {type#}"],
        "Quantisation unknown to this version",
        "the tensor `{tensor}` has a type ({type}) that this build does not know",
        &[NEWER, change("local_path", "or use another quantisation of the model, such as Q4_K_M")],
    ),
    log(
        "llamacpp_projector_as_model",
        &["CLIP cannot be used as main model"],
        "A projector, not a model",
        "the file is the projector of a multimodal model",
        &[change("local_path", "point to the model itself"), change("mmproj", "and put this file here")],
    ),
    log(
        "llamacpp_architecture_unsupported",
        &["unknown model architecture: '{name}'"],
        "Architecture unknown to this version",
        "this build of llama.cpp does not know models of the kind `{name}`",
        &[NEWER],
    ),
    log(
        "llamacpp_pre_tokenizer_unknown",
        &["unknown pre-tokenizer type: '{name}'"],
        "Tokenizer unknown to this version",
        "this build does not know the pre-tokenizer `{name}`",
        &[NEWER, change("local_path", "or use a file that was converted anew")],
    ),
    log(
        "llamacpp_tokenizer_missing",
        &["error loading model vocabulary: {why}", "cannot find tokenizer {what}"],
        "Tokenizer missing in the file",
        "the file has no usable tokenizer[ ({why})]: a faulty conversion, or not a language model",
        &[change("local_path", "use another conversion of the model")],
    ),
    log(
        "llamacpp_metadata_missing",
        &[
            "error loading model hyperparameters: key not found in model: {key}",
            "key not found in model: {key}",
        ],
        "Metadata missing in the file",
        "the file lacks `{key}`: it is an adapter, a faulty conversion, or made for another version",
        &[
            change("local_path", "use another conversion of the model; a LoRA goes into `lora_adapters`"),
            NEWER,
        ],
    ),
    log(
        "llamacpp_metadata_invalid",
        &["error loading model hyperparameters: {why}"],
        "Metadata wrong in the file",
        "the file contradicts itself: {why}",
        &[change("local_path", "use another conversion of the model"), NEWER],
    ),
    log(
        "llamacpp_tensor_missing",
        &["tensor '{tensor}' not found", "missing tensor '{tensor}'"],
        "Tensor missing in the file",
        "the file lacks the tensor `{tensor}`: a faulty conversion, or a newer kind of model",
        &[NEWER, change("local_path", "or use another conversion of the model")],
    ),
    log(
        "llamacpp_tensor_shape",
        &["tensor '{tensor}' has wrong shape; expected {expected}, got {got}"],
        "Tensor of another shape",
        "the tensor `{tensor}` does not have the shape that the metadata announce",
        &[NEWER, change("local_path", "or use another conversion of the model")],
    ),
    log(
        "llamacpp_tensor_count",
        &["wrong number of tensors; expected {expected#}, got {got#}"],
        "Unknown tensors in the file",
        "the file holds {expected} tensors and this build uses {got}: a newer kind of model",
        &[NEWER, change("local_path", "or use another conversion of the model")],
    ),
    log(
        "llamacpp_not_first_part",
        &[
            "illegal split file idx: {index#} (file: {path}), model must be loaded with the first split",
            "invalid split file",
        ],
        "Not the first part",
        "a model in several parts is loaded by naming the first one",
        &[set("local_path", Made(values::first_part), "point to the part that ends in `-00001-of-…`")],
    ),
    log(
        "llamacpp_lora_not_usable",
        &[
            "llama_adapter_lora_init: failed to open '{path}': {why}",
            "failed to apply lora adapter: {why}",
            "failed to load lora adapter '{path}'",
        ],
        "LoRA adapter not usable",
        "an adapter can't be loaded[: {why}]",
        &[change("lora_adapters", "correct or remove it; adapters must be GGUF files made for this model")],
    ),
    log(
        "llamacpp_projector_not_usable",
        &["Failed to load CLIP model from {path}", "failed to load multimodal model, '{path}'"],
        "Projector not usable",
        "`{path}` can't be used as the model's projector",
        &[set("mmproj", Unset, "use the `mmproj-….gguf` that belongs to this model, or unset it")],
    ),
];
