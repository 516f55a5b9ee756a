//! Failures of llama-server: its arguments and the process. The texts are from b11434; nearly all failures were
//! provoked with it.

use super::{
    signature::{
        Advice, Both, Signature, Target,
        Try::{Bool, Made, Text, Unset},
        When, both, change, set, set_flag, tip,
    },
    values,
};
use crate::model::EngineKind::Llamacpp;

const fn log(
    id: &'static str,
    patterns: &'static [&'static str],
    title: Both,
    message: Both,
    fixes: &'static [Advice],
) -> Signature {
    Signature::new(id, Some(Llamacpp), When::Log(patterns), title, message, fixes)
}

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "llamacpp_argument_removed",
        &["error while handling argument \"{flag}\": the argument has been removed. {hint}"],
        both("Argument unknown to this version", "Argument in dieser Version unbekannt"),
        both(
            "this build of llama.cpp no longer takes `{flag}` ({hint})",
            "dieser Build von llama.cpp nimmt `{flag}` nicht mehr an ({hint})",
        ),
        &[
            set_flag(
                Made(values::leave_out),
                both(
                    "change or unset `{field}`, which becomes `{flag}`",
                    "ändern oder entfernen Sie `{field}`, woraus `{flag}` wird",
                ),
            ),
            change(
                "engine_image",
                both(
                    "or use an image whose tag tells its build, so that the gateway writes the new form",
                    "oder verwenden Sie ein Image, dessen Tag den Build nennt, damit das Gateway die neue \
                     Form schreibt",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_unknown_argument",
        &["error: invalid argument: {flag}"],
        both("Argument unknown to this version", "Argument in dieser Version unbekannt"),
        both(
            "this build of llama.cpp does not know `{flag}`: it was removed, or comes with a newer build",
            "dieser Build von llama.cpp kennt `{flag}` nicht: es wurde entfernt, oder es kommt erst mit \
             einem neueren Build",
        ),
        &[
            set_flag(
                Made(values::leave_out),
                both(
                    "change or unset `{field}`, which becomes `{flag}`",
                    "ändern oder entfernen Sie `{field}`, woraus `{flag}` wird",
                ),
            ),
            change(
                "engine_image",
                both(
                    "or use an image whose tag tells its build, so that the gateway writes what it knows",
                    "oder verwenden Sie ein Image, dessen Tag den Build nennt, damit das Gateway schreibt, \
                     was er kennt",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_cache_type_not_supported",
        &["error while handling argument \"{flag}\": Unsupported cache type: {value}"],
        both("Cache type not supported", "Typ des Caches nicht unterstützt"),
        both(
            "the KV cache can't have elements of type `{value}`",
            "der KV-Cache kann keine Elemente vom Typ `{value}` haben",
        ),
        &[set_flag(
            Text("f16"),
            both("use a type that the log lists", "verwenden Sie einen Typ, der im Protokoll steht"),
        )],
    ),
    log(
        "llamacpp_unknown_buffer_type",
        &["error while handling argument \"{flag}\": unknown buffer type"],
        both("Device unknown to this build", "Gerät in diesem Build unbekannt"),
        both(
            "`override_tensor` names a device that this build does not have, as `CUDA0` in an image for CPUs",
            "`override_tensor` nennt ein Gerät, das dieser Build nicht hat, etwa `CUDA0` in einem Image \
             für CPUs",
        ),
        &[
            set_flag(
                Unset,
                both(
                    "name a device that the log lists, or unset it",
                    "nennen Sie ein Gerät, das im Protokoll steht, oder entfernen Sie die Einstellung",
                ),
            ),
            change(
                "engine_image",
                both("or use the image for CUDA", "oder verwenden Sie das Image für CUDA"),
            ),
        ],
    ),
    log(
        "llamacpp_unknown_device",
        &["error while handling argument \"{flag}\": invalid device: {value}"],
        both("Device unknown to this build", "Gerät in diesem Build unbekannt"),
        both("this build has no device `{value}`", "dieser Build hat kein Gerät `{value}`"),
        &[set_flag(
            Unset,
            both(
                "unset it, or use the image for CUDA",
                "entfernen Sie die Einstellung, oder verwenden Sie das Image für CUDA",
            ),
        )],
    ),
    log(
        "llamacpp_argument_file_not_found",
        &["error while handling argument \"{flag}\": error: failed to open file '{path}'"],
        both("File not found", "Datei nicht gefunden"),
        both("the engine finds no file `{path}`", "die Engine findet keine Datei `{path}`"),
        &[set_flag(
            Unset,
            both(
                "set `{field}` to a file below the models base directory, or unset it",
                "setzen Sie `{field}` auf eine Datei im Modellordner, oder entfernen Sie die Einstellung",
            ),
        )],
    ),
    log(
        "llamacpp_invalid_value",
        &[
            "error while handling argument \"{flag}\": error: {why}",
            "error while handling argument \"{flag}\": {why}",
            "error while handling environment variable \"{flag}\": {why}",
            "unknown value for {flag}: '{value}'",
        ],
        both("Value not understood", "Wert nicht verstanden"),
        both(
            "`{flag}` can't be set to this value[ ({why})]; the log shows what it takes",
            "`{flag}` kann nicht auf diesen Wert gesetzt werden[ ({why})]; das Protokoll zeigt, was \
             erlaubt ist",
        ),
        &[
            set_flag(
                Unset,
                both("correct `{field}`, or unset it", "berichtigen oder entfernen Sie `{field}`"),
            ),
            change(
                "engine_image",
                both("or use a build that takes it", "oder verwenden Sie einen Build, der ihn annimmt"),
            ),
        ],
    ),
    log(
        "llamacpp_kv_quant_needs_flash_attn",
        &["quantized V cache requires flash_attn", "V cache quantization requires flash_attn"],
        both("Cache type needs flash attention", "Typ des Caches braucht Flash Attention"),
        both(
            "a quantised V cache works only with flash attention",
            "ein quantisierter V-Cache funktioniert nur mit Flash Attention",
        ),
        &[
            set(
                "flash_attn",
                Text("on"),
                both("switch flash attention on", "schalten Sie Flash Attention ein"),
            ),
            set(
                "cache_type_v",
                Text("f16"),
                both("or don't quantise the V cache", "oder quantisieren Sie den V-Cache nicht"),
            ),
        ],
    ),
    log(
        "llamacpp_kv_quant_block",
        &["K cache type {type} with block size {block#} does not divide {what}={size#}"],
        both("Cache type does not fit the model", "Typ des Caches passt nicht zum Modell"),
        both(
            "the model's heads have {size} values, which do not fit into blocks of {block} for `{type}`",
            "die Köpfe des Modells haben {size} Werte, die nicht in Blöcke von {block} für `{type}` passen",
        ),
        &[set(
            "cache_type_k",
            Text("f16"),
            both("don't quantise the K cache", "quantisieren Sie den K-Cache nicht"),
        )],
    ),
    log(
        "llamacpp_kv_quant_block_v",
        &["V cache type {type} with block size {block#} does not divide {what}={size#}"],
        both("Cache type does not fit the model", "Typ des Caches passt nicht zum Modell"),
        both(
            "the model's heads have {size} values, which do not fit into blocks of {block} for `{type}`",
            "die Köpfe des Modells haben {size} Werte, die nicht in Blöcke von {block} für `{type}` passen",
        ),
        &[set(
            "cache_type_v",
            Text("f16"),
            both("don't quantise the V cache", "quantisieren Sie den V-Cache nicht"),
        )],
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
        both("Chat template not usable", "Chat-Vorlage nicht verwendbar"),
        both(
            "llama-server can't use the chat template: {why}",
            "llama-server kann die Chat-Vorlage nicht verwenden: {why}",
        ),
        &[
            Advice {
                text: both(
                    "correct the template, or use the model's own if it has one",
                    "berichtigen Sie die Vorlage, oder verwenden Sie die des Modells, wenn es eine hat",
                ),
                target: Target::FirstSet(&["chat_template_file", "chat_template"]),
                value: Made(values::unset),
            },
            Advice {
                text: both("or use a built-in one", "oder verwenden Sie eine eingebaute"),
                target: Target::Helping("chat_template", values::own_template),
                value: Text("chatml"),
            },
            set(
                "jinja",
                Bool(true),
                both(
                    "templates other than the built-in ones need Jinja",
                    "andere als die eingebauten Vorlagen brauchen Jinja",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_port_in_use",
        &["couldn't bind HTTP server socket, hostname: {host}, port: {port#}"],
        both("Port in use", "Port belegt"),
        both("the engine can't listen on port {port}", "die Engine kann den Port {port} nicht öffnen"),
        &[tip(both(
            "stop the other program on this port; with its own network the container has the port to \
                 itself",
            "stoppen Sie das andere Programm auf diesem Port; mit einem eigenen Netzwerk hat der \
                 Container den Port für sich",
        ))],
    ),
    log(
        "llamacpp_too_many_threads",
        &["what():  Resource temporarily unavailable"],
        both("Too many threads or slots", "Zu viele Threads oder Slots"),
        both("the system refuses to start more threads", "das System erlaubt keine weiteren Threads"),
        &[
            set(
                "parallel_slots",
                Unset,
                both("answer fewer requests together", "beantworten Sie weniger Anfragen gleichzeitig"),
            ),
            set("threads", Unset, both("use fewer threads", "verwenden Sie weniger Threads")),
        ],
    ),
    log(
        "llamacpp_assertion",
        &["GGML_ASSERT({what}) failed"],
        both("Engine crashed", "Die Engine ist abgestürzt"),
        both(
            "llama.cpp stopped because something can't be: `{what}`",
            "llama.cpp hat angehalten, weil etwas nicht sein kann: `{what}`",
        ),
        &[
            set(
                "ubatch_size",
                Unset,
                both(
                    "unset batch sizes and other expert settings",
                    "entfernen Sie Batchgrößen und andere Einstellungen für Kundige",
                ),
            ),
            change(
                "engine_image",
                both(
                    "try another build of the engine",
                    "versuchen Sie es mit einem anderen Build der Engine",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_no_model",
        &["router mode enabled"],
        both("No model given", "Kein Modell angegeben"),
        both(
            "llama-server was started without a model, so it serves none",
            "llama-server wurde ohne Modell gestartet und bedient deshalb keines",
        ),
        &[
            change(
                "local_path",
                both("set it to a `.gguf` file", "setzen Sie die Einstellung auf eine `.gguf`-Datei"),
            ),
            change(
                "extra_args",
                both("remove what hides `--model`", "entfernen Sie, was `--model` verdeckt"),
            ),
        ],
    )
    .notice(),
    log(
        "llamacpp_draft_model_unusable",
        &[
            "failed to initialize speculative decoding context: {why}",
            "the target and draft vocabs are not compatible",
        ],
        both("Draft model not used", "Entwurfsmodell nicht verwendet"),
        both(
            "the draft model does not go with the model, so answers are not sped up",
            "das Entwurfsmodell passt nicht zum Modell; Antworten werden deshalb nicht schneller",
        ),
        &[set(
            "draft_model_path",
            Unset,
            both(
                "use a draft model of the same family, or unset it",
                "verwenden Sie ein Entwurfsmodell derselben Familie, oder entfernen Sie die Einstellung",
            ),
        )],
    )
    .notice(),
    log(
        "llamacpp_not_generative",
        &["the current context does not support logits computation"],
        both("Not a model for chats", "Kein Modell für Chats"),
        both(
            "the model makes embeddings and can't generate text",
            "das Modell erzeugt Embeddings und kann keinen Text erzeugen",
        ),
        &[set(
            "task",
            Text("embed"),
            both(
                "make the model anew with the task `embed`",
                "legen Sie das Modell neu an, mit der Aufgabe `embed`",
            ),
        )],
    )
    .notice(),
];
