//! Failures of checkpoints in vLLM. The texts are from vLLM 0.32.0 with transformers 5.19; each failure was provoked
//! with the CPU build.

use super::signature::{
    Advice, Both, Signature,
    Try::{Bool, Unset},
    When, both, change, change_path, set, tip,
};
use crate::model::EngineKind::Vllm;

const fn log(
    id: &'static str,
    patterns: &'static [&'static str],
    title: Both,
    message: Both,
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
        both("Quantisation unknown to this version", "Quantisierung in dieser Version unbekannt"),
        both(
            "this version of vLLM has no quantisation `{method}` (GGUF left in 0.24, bitsandbytes in 0.28)",
            "diese Version von vLLM hat keine Quantisierung `{method}` (GGUF entfiel in 0.24, bitsandbytes \
             in 0.28)",
        ),
        &[
            set(
                "quantization",
                Unset,
                both(
                    "unset it: vLLM reads it from the checkpoint",
                    "entfernen Sie die Einstellung: vLLM liest sie aus dem Checkpoint",
                ),
            ),
            tip(both("GGUF files are for the llamacpp engine", "GGUF-Dateien sind für die Engine llamacpp")),
        ],
    ),
    log(
        "vllm_not_quantized",
        &["Cannot find the config file for {method}"],
        both("Checkpoint not quantised like this", "Checkpoint nicht so quantisiert"),
        both(
            "the checkpoint says nothing of `{method}`: it is not quantised that way",
            "der Checkpoint sagt nichts von `{method}`: er ist nicht so quantisiert",
        ),
        &[set(
            "quantization",
            Unset,
            both(
                "unset it, or use a checkpoint that was quantised with `{method}`",
                "entfernen Sie die Einstellung, oder verwenden Sie einen Checkpoint, der mit `{method}` \
             quantisiert wurde",
            ),
        )],
    ),
    log(
        "vllm_quantization_mismatch",
        &["Quantization method specified in the model config ({method}) does not match"],
        both("Checkpoint quantised differently", "Checkpoint anders quantisiert"),
        both(
            "the checkpoint is quantised with `{method}`, and another method is set",
            "der Checkpoint ist mit `{method}` quantisiert, und gesetzt ist ein anderes Verfahren",
        ),
        &[set(
            "quantization",
            Unset,
            both(
                "unset it: vLLM reads it from the checkpoint",
                "entfernen Sie die Einstellung: vLLM liest sie aus dem Checkpoint",
            ),
        )],
    ),
    log(
        "vllm_chat_template_not_found",
        &[
            "The supplied chat template string ({path}) appears path-like, but doesn't exist",
            "The supplied chat template ({path}) looks like a file path, but it failed to be opened",
        ],
        both("Chat template not found", "Chat-Vorlage nicht gefunden"),
        both("there is no chat template `{path}`", "es gibt keine Chat-Vorlage `{path}`"),
        &[change_path(
            "chat_template_file",
            both(
                "set it to a file below the models base directory, or put the template itself into \
                 `chat_template`",
                "setzen Sie die Einstellung auf eine Datei im Modellordner, oder schreiben Sie die Vorlage \
                 selbst in `chat_template`",
            ),
        )],
    ),
    log(
        "vllm_lora_not_found",
        &["Loading lora {name} failed: No adapter found for {path}"],
        both("LoRA adapter not found", "LoRA-Adapter nicht gefunden"),
        both("there is no adapter `{name}` in `{path}`", "in `{path}` gibt es keinen Adapter `{name}`"),
        &[change(
            "lora_adapters",
            both(
                "correct the folder of `{name}`; it holds `adapter_config.json`",
                "berichtigen Sie den Ordner von `{name}`; er enthält `adapter_config.json`",
            ),
        )],
    ),
    log(
        "vllm_gguf_not_supported",
        &["It looks like the config file at '{path}.gguf' is not a valid JSON file"],
        both("GGUF is not for this engine", "GGUF ist nicht für diese Engine"),
        both("vLLM 0.24 and later can't load GGUF files", "vLLM kann ab 0.24 keine GGUF-Dateien laden"),
        &[
            tip(both(
                "make the model anew with the llamacpp engine, which is made for GGUF",
                "legen Sie das Modell neu an, mit der Engine llamacpp, die für GGUF gemacht ist",
            )),
            change(
                "local_path",
                both(
                    "or point to a folder with safetensors files",
                    "oder nennen Sie einen Ordner mit safetensors-Dateien",
                ),
            ),
        ],
    ),
    log(
        "vllm_config_invalid",
        &["It looks like the config file at '{path}' is not a valid JSON file"],
        both("Damaged config.json", "Beschädigte config.json"),
        both(
            "`{path}` is not valid JSON: an incomplete download or a typing error",
            "`{path}` ist kein gültiges JSON: ein unvollständiger Download oder ein Schreibfehler",
        ),
        &[change("local_path", both("download the file again", "laden Sie die Datei erneut herunter"))],
    ),
    log(
        "vllm_model_folder_not_found",
        &[
            "HFValidationError: Repo id must be in the form {form}: '{path}'",
            "Repo id must use alphanumeric chars",
        ],
        both("Model folder not found", "Ordner des Modells nicht gefunden"),
        both(
            "the engine finds no such folder[: `{path}`]",
            "die Engine findet keinen solchen Ordner[: `{path}`]",
        ),
        &[
            change_path(
                "local_path",
                both(
                    "set it to a folder below the models base directory",
                    "setzen Sie die Einstellung auf einen Ordner unterhalb des Modellordners",
                ),
            ),
            tip(both(
                "check that the models base directory is the one that holds the model",
                "prüfen Sie, ob der eingestellte Modellordner derjenige ist, der das Modell enthält",
            )),
        ],
    ),
    log(
        "vllm_config_missing",
        &[
            "Invalid repository ID or local directory specified: '{path}'",
            "{path} does not appear to have a file named config.json",
            "Unrecognized model in {path}. Should have a `model_type` key",
        ],
        both("Not a model folder", "Kein Ordner eines Modells"),
        both("`{path}` has no usable `config.json`", "`{path}` hat keine brauchbare `config.json`"),
        &[
            change_path(
                "local_path",
                both(
                    "point to the folder that holds `config.json`, or download it again",
                    "nennen Sie den Ordner, der `config.json` enthält, oder laden Sie ihn erneut herunter",
                ),
            ),
            tip(both(
                "a folder with only GGUF files is for the llamacpp engine",
                "ein Ordner nur mit GGUF-Dateien ist für die Engine llamacpp",
            )),
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
        both("The checkpoint wants to run its own code", "Der Checkpoint will eigenen Code ausführen"),
        both(
            "the checkpoint comes with Python code that the engine runs only when it is told to",
            "der Checkpoint bringt Python-Code mit, den die Engine nur auf Anweisung ausführt",
        ),
        &[
            set(
                "trust_remote_code",
                Bool(true),
                both(
                    "read the code, and if you trust it, allow it",
                    "lesen Sie den Code, und erlauben Sie ihn, wenn Sie ihm vertrauen",
                ),
            ),
            tip(both(
                "a newer engine image may know the model without that code",
                "ein neueres Image der Engine kennt das Modell vielleicht ohne diesen Code",
            )),
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
        both("Architecture unknown to this version", "Architektur in dieser Version unbekannt"),
        both(
            "this version of vLLM does not know models of the kind `{name}`",
            "diese Version von vLLM kennt keine Modelle der Art `{name}`",
        ),
        &[
            change(
                "engine_image",
                both("use a newer version of the engine", "verwenden Sie eine neuere Version der Engine"),
            ),
            tip(both(
                "or look for the model as GGUF, for the llamacpp engine",
                "oder suchen Sie das Modell als GGUF, für die Engine llamacpp",
            )),
        ],
    ),
    log(
        "vllm_tokenizer_not_found",
        &[
            "Couldn't instantiate the backend tokenizer",
            "Can't load tokenizer for '{path}'",
            "Failed to load the tokenizer",
        ],
        both("Tokenizer missing", "Tokenizer fehlt"),
        both(
            "the model folder has no usable tokenizer",
            "der Ordner des Modells enthält keinen brauchbaren Tokenizer",
        ),
        &[
            change(
                "tokenizer",
                both(
                    "point to a folder or repository with the tokenizer of the original model",
                    "nennen Sie einen Ordner oder ein Repository mit dem Tokenizer des ursprünglichen Modells",
                ),
            ),
            change(
                "local_path",
                both(
                    "or download `tokenizer.json` (or `tokenizer.model`) into the model's folder",
                    "oder laden Sie `tokenizer.json` (oder `tokenizer.model`) in den Ordner des Modells",
                ),
            ),
        ],
    ),
    log(
        "vllm_weights_missing",
        &["Cannot find any model weights with `{path}`"],
        both("No weights in the folder", "Keine Gewichte im Ordner"),
        both(
            "`{path}` holds neither `*.safetensors` nor `*.bin` files: an incomplete download",
            "`{path}` enthält weder `*.safetensors`- noch `*.bin`-Dateien: ein unvollständiger Download",
        ),
        &[change_path(
            "local_path",
            both(
                "download the weights, or point to the folder that holds them",
                "laden Sie die Gewichte herunter, oder nennen Sie den Ordner, der sie enthält",
            ),
        )],
    ),
    log(
        "vllm_shard_missing",
        &["Weight files referenced in index but missing: {files}"],
        both("Part of the weights missing", "Ein Teil der Gewichte fehlt"),
        both(
            "the index of the weights names files that are not there: {files}",
            "das Verzeichnis der Gewichte nennt Dateien, die nicht vorhanden sind: {files}",
        ),
        &[change(
            "local_path",
            both("download the missing files", "laden Sie die fehlenden Dateien herunter"),
        )],
    ),
    log(
        "vllm_weights_damaged",
        &[
            "SafetensorError: Error while deserializing header: {why}",
            "SafetensorError: {why}",
            "PytorchStreamReader failed",
        ],
        both("Damaged weights", "Gewichte beschädigt"),
        both(
            "a file of weights can't be read[ ({why})]: an incomplete download, or a git-lfs pointer \
             instead of the file",
            "eine Datei mit Gewichten ist nicht lesbar[ ({why})]: ein unvollständiger Download, oder ein \
             git-lfs-Zeiger statt der Datei",
        ),
        &[change(
            "local_path",
            both(
                "download the files again; pointers of a few hundred bytes need `git lfs pull`",
                "laden Sie die Dateien erneut herunter; Zeiger von einigen Hundert Bytes brauchen `git lfs \
                 pull`",
            ),
        )],
    ),
    log(
        "vllm_no_chat_template",
        &[
            "default chat template is no longer allowed",
            "Cannot use chat template functions because tokenizer.chat_template is not set",
        ],
        both("No chat template", "Keine Chat-Vorlage"),
        both(
            "the model has no chat template, as base models do; the gateway turns chats into plain prompts",
            "das Modell hat keine Chat-Vorlage, wie alle Basismodelle; das Gateway macht aus Chats \
             einfache Prompts",
        ),
        &[change(
            "chat_template_file",
            both(
                "for better answers, set the template of the model's family",
                "setzen Sie für bessere Antworten die Vorlage der Modellfamilie",
            ),
        )],
    )
    .notice(),
];
