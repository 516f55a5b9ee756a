//! Failures of vLLM: its arguments and the process. The texts are from vLLM 0.32.0: provoked with its CPU build where
//! possible, else taken from its sources.

use super::{
    signature::{
        Advice, Both, Signature,
        Try::{Bool, Captured, Made, Text, Unset},
        When, both, change, set, set_flag, tip,
    },
    values,
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
        "vllm_unknown_argument",
        &["error: unrecognized arguments: {flag}"],
        both("Argument unknown to this version", "Argument in dieser Version unbekannt"),
        both(
            "this version of vLLM does not know `{flag}`: it was removed, or comes with a newer version",
            "diese Version von vLLM kennt `{flag}` nicht: es wurde entfernt, oder es kommt erst mit einer \
             neueren Version",
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
                    "or use a version of the engine that knows it; its tag should tell the version",
                    "oder verwenden Sie eine Version der Engine, die es kennt; ihr Tag sollte die Version \
                     nennen",
                ),
            ),
        ],
    ),
    log(
        "vllm_invalid_choice",
        &["error: argument {flag}: invalid choice: '{value}' (choose from {allowed})"],
        both("Value not allowed", "Wert nicht erlaubt"),
        both(
            "`{value}` is no value of `{flag}`; allowed are {allowed}",
            "`{value}` ist kein Wert von `{flag}`; erlaubt sind {allowed}",
        ),
        &[set_flag(
            Unset,
            both(
                "choose one of the allowed values, or unset `{field}`",
                "wählen Sie einen der erlaubten Werte, oder entfernen Sie `{field}`",
            ),
        )],
    ),
    log(
        "vllm_invalid_value",
        &["error: argument {flag}: invalid {type} value: '{value}'", "error: argument {flag}: {why}"],
        both("Value not understood", "Wert nicht verstanden"),
        both("`{flag}` can't be set to this value", "`{flag}` kann nicht auf diesen Wert gesetzt werden"),
        &[set_flag(
            Unset,
            both("correct `{field}`, or unset it", "berichtigen oder entfernen Sie `{field}`"),
        )],
    ),
    log(
        "vllm_value_out_of_range",
        &["{flag}: Input should be {allowed} [type={type}, input_value={value}, input_type"],
        both("Value out of range", "Wert außerhalb des Bereichs"),
        both("`{flag}` should be {allowed}, and is {value}", "`{flag}` muss {allowed} sein und ist {value}"),
        &[set_flag(
            Unset,
            both("correct `{field}`, or unset it", "berichtigen oder entfernen Sie `{field}`"),
        )],
    ),
    log(
        "vllm_context_too_long",
        &[
            "User-specified max_model_len ({asked#}) is greater than the derived max_model_len ({source}={limit#}",
        ],
        both("Context longer than the model's", "Kontext länger als der des Modells"),
        both(
            "the model was made for contexts of at most {limit} tokens, and {asked} are asked for",
            "das Modell ist für Kontexte von höchstens {limit} Tokens gemacht, und verlangt sind {asked}",
        ),
        &[
            set(
                "max_model_len",
                Captured("limit"),
                both("use the model's own length", "verwenden Sie die Länge des Modells"),
            ),
            tip(both(
                "for longer contexts, choose a checkpoint whose `config.json` has RoPE scaling",
                "wählen Sie für längere Kontexte einen Checkpoint, dessen `config.json` RoPE-Skalierung \
                 enthält",
            )),
        ],
    ),
    log(
        "vllm_batch_below_context",
        &["max_num_batched_tokens ({batch#}) is smaller than max_model_len ({length#})"],
        both("Batch smaller than the context", "Batch kleiner als der Kontext"),
        both(
            "without chunked prefill a step must hold a whole context of {length} tokens, and it holds \
             {batch}",
            "ohne Chunked Prefill muss ein Schritt einen ganzen Kontext von {length} Tokens fassen, und er \
             fasst {batch}",
        ),
        &[
            set(
                "max_num_batched_tokens",
                Captured("length"),
                both(
                    "let a step hold a whole context",
                    "lassen Sie einen Schritt einen ganzen Kontext fassen",
                ),
            ),
            set(
                "enable_chunked_prefill",
                Bool(true),
                both("or cut long prompts into pieces", "oder zerlegen Sie lange Prompts in Stücke"),
            ),
        ],
    ),
    log(
        "vllm_batch_below_sequences",
        &["max_num_batched_tokens ({batch#}) must be greater than or equal to max_num_seqs ({sequences#})"],
        both("Batch smaller than the number of sequences", "Batch kleiner als die Zahl der Sequenzen"),
        both(
            "a step holds {batch} tokens, which is less than one for each of {sequences} sequences",
            "ein Schritt fasst {batch} Tokens; das ist weniger als eines für jede der {sequences} Sequenzen",
        ),
        &[
            set(
                "max_num_seqs",
                Captured("batch"),
                both("generate fewer sequences together", "erzeugen Sie weniger Sequenzen gleichzeitig"),
            ),
            set(
                "max_num_batched_tokens",
                Captured("sequences"),
                both("or let a step hold more tokens", "oder lassen Sie einen Schritt mehr Tokens fassen"),
            ),
        ],
    ),
    log(
        "vllm_unknown_attention_backend",
        &["Unknown attention backend: '{name}'"],
        both("Attention backend unknown", "Attention-Backend unbekannt"),
        both(
            "this version of vLLM has no attention backend `{name}`",
            "diese Version von vLLM hat kein Attention-Backend `{name}`",
        ),
        &[set(
            "attention_backend",
            Unset,
            both(
                "unset it, or choose one that the log lists",
                "entfernen Sie die Einstellung, oder wählen Sie eines, das im Protokoll steht",
            ),
        )],
    ),
    log(
        "vllm_block_size_not_supported",
        &["No common block size for {size#}"],
        both("Block size not supported", "Blockgröße nicht unterstützt"),
        both(
            "the attention implementation can't use blocks of {size} tokens",
            "die Attention-Implementierung kann keine Blöcke von {size} Tokens verwenden",
        ),
        &[set(
            "block_size",
            Unset,
            both("unset it: the engine chooses", "entfernen Sie die Einstellung: die Engine wählt"),
        )],
    ),
    log(
        "vllm_unknown_tool_parser",
        &["invalid tool call parser: {name} ("],
        both("Tool parser unknown", "Tool-Parser unbekannt"),
        both(
            "this version of vLLM has no tool call parser `{name}`",
            "diese Version von vLLM hat keinen Parser `{name}` für Tool-Aufrufe",
        ),
        &[set(
            "tool_call_parser",
            Unset,
            both(
                "choose one that the log lists, or unset it with `enable_auto_tool_choice`",
                "wählen Sie einen, der im Protokoll steht, oder entfernen Sie ihn zusammen mit \
                 `enable_auto_tool_choice`",
            ),
        )],
    ),
    log(
        "vllm_tool_choice_needs_parser",
        &["--enable-auto-tool-choice requires --tool-call-parser"],
        both("Tool choice without a parser", "Tool-Auswahl ohne Parser"),
        both(
            "`enable_auto_tool_choice` needs a `tool_call_parser`",
            "`enable_auto_tool_choice` braucht einen `tool_call_parser`",
        ),
        &[
            change(
                "tool_call_parser",
                both(
                    "choose the parser for this family of models",
                    "wählen Sie den Parser für diese Modellfamilie",
                ),
            ),
            set(
                "enable_auto_tool_choice",
                Bool(false),
                both("or switch tool choice off", "oder schalten Sie die Tool-Auswahl aus"),
            ),
        ],
    ),
    log(
        "vllm_unknown_reasoning_parser",
        &["Reasoning parser '{name}' not found", "invalid reasoning parser: {name} ("],
        both("Reasoning parser unknown", "Reasoning-Parser unbekannt"),
        both(
            "this version of vLLM has no reasoning parser `{name}`",
            "diese Version von vLLM hat keinen Reasoning-Parser `{name}`",
        ),
        &[set(
            "reasoning_parser",
            Unset,
            both(
                "choose one that the log lists, or unset it",
                "wählen Sie einen, der im Protokoll steht, oder entfernen Sie die Einstellung",
            ),
        )],
    ),
    log(
        "vllm_lora_rank_too_high",
        &["LoRA rank {rank#} is greater than max_lora_rank {most#}"],
        both("Adapter larger than prepared for", "Adapter größer als vorgesehen"),
        both(
            "an adapter has rank {rank}, and the engine prepares for {most}",
            "ein Adapter hat den Rang {rank}, und die Engine ist für {most} vorbereitet",
        ),
        &[
            change(
                "extra_args",
                both(
                    "add `--max-lora-rank` with {rank}, or the next of 8, 16, 32, 64, 128, 256, 320 and \
                     512 above it",
                    "fügen Sie `--max-lora-rank` mit {rank} hinzu, oder mit dem nächsthöheren Wert aus 8, \
                     16, 32, 64, 128, 256, 320 und 512",
                ),
            ),
            change("lora_adapters", both("or leave the adapter out", "oder lassen Sie den Adapter weg")),
        ],
    ),
    log(
        "vllm_port_in_use",
        &["[Errno 98] Address already in use", "[Errno 98] error while attempting to bind"],
        both("Port in use", "Port belegt"),
        both(
            "the engine's port is taken by another program, which happens only with the host's network",
            "den Port der Engine belegt ein anderes Programm; das kommt nur mit dem Netzwerk des Hosts vor",
        ),
        &[tip(both(
            "stop the other program, or give the container its own network",
            "stoppen Sie das andere Programm, oder geben Sie dem Container ein eigenes Netzwerk",
        ))],
    ),
    log(
        "vllm_compiler_missing",
        &["No working C++ compiler found", "Failed to find C compiler"],
        both("Compiler missing in the image", "Compiler fehlt im Image"),
        both(
            "the engine wants to compile code, and its image holds no compiler",
            "die Engine will Code übersetzen, und ihr Image enthält keinen Compiler",
        ),
        &[
            set("enforce_eager", Bool(true), both("don't compile", "lassen Sie nichts übersetzen")),
            change(
                "engine_image",
                both(
                    "or use the engine's complete image",
                    "oder verwenden Sie das vollständige Image der Engine",
                ),
            ),
        ],
    ),
    log(
        "python_module_missing",
        &["ModuleNotFoundError: No module named '{name}'"],
        both("Module missing in the image", "Modul fehlt im Image"),
        both(
            "the engine needs the Python module `{name}`, which its image does not hold",
            "die Engine braucht das Python-Modul `{name}`, das ihr Image nicht enthält",
        ),
        &[change(
            "engine_image",
            both(
                "use an image with `{name}`, or another version",
                "verwenden Sie ein Image mit `{name}` oder eine andere Version",
            ),
        )],
    ),
    log(
        "vllm_worker_out_of_memory",
        &["died unexpectedly (exit code: -9)"],
        both("Worker killed", "Worker beendet"),
        both(
            "a process of the engine was killed, almost always because the host ran out of RAM",
            "ein Prozess der Engine wurde beendet, fast immer, weil dem Host der RAM ausging",
        ),
        &[
            set(
                "max_model_len",
                Made(values::half),
                both("use a shorter context", "verwenden Sie einen kürzeren Kontext"),
            ),
            set(
                "cpu_offload_gb",
                Unset,
                both("keep fewer weights in RAM", "behalten Sie weniger Gewichte im RAM"),
            ),
            tip(both(
                "`dmesg` on the host tells whether the kernel killed it for memory",
                "`dmesg` auf dem Host sagt, ob der Kernel ihn wegen Speichermangels beendet hat",
            )),
        ],
    )
    .symptom(),
    log(
        "vllm_worker_illegal_instruction",
        &["died unexpectedly (exit code: -4)"],
        both("Processor too old for the image", "Prozessor zu alt für das Image"),
        both(
            "a process of the engine used an instruction that this processor does not have",
            "ein Prozess der Engine hat einen Befehl verwendet, den dieser Prozessor nicht kennt",
        ),
        &[
            change(
                "engine_image",
                both(
                    "use another version or variant of the image",
                    "verwenden Sie eine andere Version oder Variante des Images",
                ),
            ),
            set(
                "dtype",
                Text("float32"),
                both(
                    "on a CPU, calculate with 32-bit floats",
                    "rechnen Sie auf einer CPU mit 32-Bit-Gleitkommazahlen",
                ),
            ),
        ],
    )
    .symptom(),
    log(
        "vllm_worker_crashed",
        &["died unexpectedly (exit code: {code})"],
        both("Worker ended", "Worker endete"),
        both(
            "a process of the engine ended (code {code}) and took the engine with it",
            "ein Prozess der Engine endete (Code {code}) und hat die Engine mitgenommen",
        ),
        &[
            change(
                "engine_image",
                both(
                    "try another version of the engine",
                    "versuchen Sie es mit einer anderen Version der Engine",
                ),
            ),
            tip(both("read the lines before it in the log", "lesen Sie die Zeilen davor im Protokoll")),
        ],
    )
    .symptom(),
    log(
        "vllm_engine_dead",
        &["EngineDeadError", "EngineCore encountered an issue", "EngineCore encountered a fatal error"],
        both("Engine crashed", "Die Engine ist abgestürzt"),
        both(
            "the engine met an error while it ran and ended",
            "die Engine stieß im Betrieb auf einen Fehler und endete",
        ),
        &[
            tip(both(
                "start the model again, and read the log above this line",
                "starten Sie das Modell erneut, und lesen Sie das Protokoll oberhalb dieser Zeile",
            )),
            change("engine_image", both("try another version", "versuchen Sie es mit einer anderen Version")),
        ],
    )
    .symptom(),
];
