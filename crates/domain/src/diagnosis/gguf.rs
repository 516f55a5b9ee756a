//! Failures of GGUF files. The texts are from llama.cpp b11434; nearly all failures were provoked with it.

use super::{
    signature::{
        Advice, Both, Signature,
        Try::{Made, Unset},
        When, both, change, change_path, set, tip,
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

const AGAIN: Advice = change(
    "local_path",
    both(
        "download the file again, and compare its size with the source",
        "laden Sie die Datei erneut herunter, und vergleichen Sie ihre Größe mit der Quelle",
    ),
);
const NEWER: Advice = change(
    "engine_image",
    both("use a newer version of the engine", "verwenden Sie eine neuere Version der Engine"),
);

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "llamacpp_split_part_missing",
        &["failed to open GGUF file '{path}-of-{count#}.gguf' (No such file"],
        both("Part of the model missing", "Ein Teil des Modells fehlt"),
        both("`{path}-of-{count}.gguf` is not there", "`{path}-of-{count}.gguf` ist nicht vorhanden"),
        &[
            change(
                "local_path",
                both(
                    "download all {count} parts into the same folder",
                    "laden Sie alle {count} Teile in denselben Ordner",
                ),
            ),
            tip(both("all parts must keep their names", "alle Teile müssen ihre Namen behalten")),
        ],
    ),
    log(
        "llamacpp_file_not_found",
        &[
            "failed to open GGUF file '{path}' (No such file or directory)",
            "error loading model: failed to open {path}: No such file or directory",
        ],
        both("File not found", "Datei nicht gefunden"),
        both("the engine finds no file `{path}`", "die Engine findet keine Datei `{path}`"),
        &[
            change_path(
                "local_path",
                both(
                    "set `{field}` to a file below the models base directory",
                    "setzen Sie `{field}` auf eine Datei im Modellordner",
                ),
            ),
            tip(both(
                "check that the models base directory is the one that holds the model",
                "prüfen Sie, ob der eingestellte Modellordner derjenige ist, der das Modell enthält",
            )),
        ],
    ),
    log(
        "llamacpp_file_not_readable",
        &[
            "failed to open GGUF file '{path}' (Permission denied)",
            "failed to open {path}: Permission denied",
        ],
        both("File not readable", "Datei nicht lesbar"),
        both("the engine may not read `{path}`", "die Engine darf `{path}` nicht lesen"),
        &[change_path(
            "local_path",
            both(
                "make the file readable for all (`chmod a+r`) and its folders enterable (`chmod a+x`)",
                "machen Sie die Datei für alle lesbar (`chmod a+r`) und ihre Ordner für alle zugänglich \
                 (`chmod a+x`)",
            ),
        )],
    ),
    log(
        "llamacpp_git_lfs_pointer",
        &["invalid magic characters: 'vers', expected 'GGUF'"],
        both("A git-lfs pointer, not a model", "Ein git-lfs-Zeiger, kein Modell"),
        both(
            "the file is a small text that stands for the model in a git repository",
            "die Datei ist ein kurzer Text, der in einem Git-Repository für das Modell steht",
        ),
        &[change(
            "local_path",
            both(
                "fetch the real file (`git lfs pull`, or download it)",
                "laden Sie die eigentliche Datei (`git lfs pull`, oder als Download)",
            ),
        )],
    ),
    log(
        "llamacpp_html_page",
        &[
            "invalid magic characters: '<!DO', expected 'GGUF'",
            "invalid magic characters: '<htm', expected 'GGUF'",
            "invalid magic characters: '<?xm', expected 'GGUF'",
        ],
        both("A web page, not a model", "Eine Webseite, kein Modell"),
        both(
            "the file is a web page: the download gave an error page or needed a login",
            "die Datei ist eine Webseite: der Download ergab eine Fehlerseite oder verlangte eine Anmeldung",
        ),
        &[AGAIN],
    ),
    log(
        "llamacpp_not_gguf",
        &["invalid magic characters: '{magic}', expected 'GGUF'", "invalid magic number {magic}"],
        both("Not a GGUF file", "Keine GGUF-Datei"),
        both(
            "the file begins with `{magic}` instead of `GGUF`: another format, an old one (GGML), or damage",
            "die Datei beginnt mit `{magic}` statt mit `GGUF`: ein anderes Format, ein altes (GGML), oder \
             ein Schaden",
        ),
        &[change_path(
            "local_path",
            both(
                "use a GGUF file; old GGML files must be converted again",
                "verwenden Sie eine GGUF-Datei; alte GGML-Dateien müssen neu umgewandelt werden",
            ),
        )],
    ),
    log(
        "llamacpp_file_empty",
        &["failed to read magic"],
        both("Empty file or a folder", "Leere Datei oder ein Ordner"),
        both(
            "nothing can be read from the model's file: it is empty, or `local_path` is a folder",
            "aus der Datei des Modells kann nichts gelesen werden: sie ist leer, oder `local_path` ist ein \
             Ordner",
        ),
        &[change(
            "local_path",
            both(
                "point to the `.gguf` file itself, and download it again if it is empty",
                "nennen Sie die `.gguf`-Datei selbst, und laden Sie sie erneut herunter, wenn sie leer ist",
            ),
        )],
    ),
    log(
        "llamacpp_gguf_too_new",
        &["this GGUF file is version {version#} but this software only supports up to version {known#}"],
        both("GGUF version unknown", "GGUF-Version unbekannt"),
        both(
            "the file says it is GGUF version {version}, and this build reads up to {known}",
            "die Datei nennt die GGUF-Version {version}, und dieser Build liest bis {known}",
        ),
        &[NEWER, AGAIN],
    ),
    log(
        "llamacpp_big_endian",
        &["is extremely large, is there a mismatch between the host and model endianness"],
        both("File for another kind of processor", "Datei für eine andere Art von Prozessor"),
        both(
            "the file was written for big-endian processors (such as s390x)",
            "die Datei wurde für Big-Endian-Prozessoren (wie s390x) geschrieben",
        ),
        &[change(
            "local_path",
            both(
                "use the usual (little-endian) file, or convert it with `gguf_convert_endian.py`",
                "verwenden Sie die übliche Datei (Little-Endian), oder wandeln Sie sie mit \
                 `gguf_convert_endian.py` um",
            ),
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
        both("File incomplete", "Datei unvollständig"),
        both(
            "the file ends before its contents do: the download was interrupted, or the disk was full",
            "die Datei endet vor ihrem Inhalt: der Download wurde unterbrochen, oder der Datenträger war \
             voll",
        ),
        &[AGAIN],
    ),
    log(
        "llamacpp_tensor_type_unknown",
        &["tensor '{tensor}' has invalid ggml type {type#}", "tensor '{tensor}' of type {type#}"],
        both("Quantisation unknown to this version", "Quantisierung in dieser Version unbekannt"),
        both(
            "the tensor `{tensor}` has a type ({type}) that this build does not know",
            "der Tensor `{tensor}` hat einen Typ ({type}), den dieser Build nicht kennt",
        ),
        &[
            NEWER,
            change(
                "local_path",
                both(
                    "or use another quantisation of the model, such as Q4_K_M",
                    "oder verwenden Sie eine andere Quantisierung des Modells, etwa Q4_K_M",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_projector_as_model",
        &["CLIP cannot be used as main model"],
        both("A projector, not a model", "Ein Projektor, kein Modell"),
        both(
            "the file is the projector of a multimodal model",
            "die Datei ist der Projektor eines multimodalen Modells",
        ),
        &[
            change("local_path", both("point to the model itself", "nennen Sie das Modell selbst")),
            change("mmproj", both("and put this file here", "und tragen Sie diese Datei hier ein")),
        ],
    ),
    log(
        "llamacpp_architecture_unsupported",
        &["unknown model architecture: '{name}'"],
        both("Architecture unknown to this version", "Architektur in dieser Version unbekannt"),
        both(
            "this build of llama.cpp does not know models of the kind `{name}`",
            "dieser Build von llama.cpp kennt keine Modelle der Art `{name}`",
        ),
        &[NEWER],
    ),
    log(
        "llamacpp_pre_tokenizer_unknown",
        &["unknown pre-tokenizer type: '{name}'"],
        both("Tokenizer unknown to this version", "Tokenizer in dieser Version unbekannt"),
        both(
            "this build does not know the pre-tokenizer `{name}`",
            "dieser Build kennt den Pre-Tokenizer `{name}` nicht",
        ),
        &[
            NEWER,
            change(
                "local_path",
                both(
                    "or use a file that was converted anew",
                    "oder verwenden Sie eine Datei, die neu umgewandelt wurde",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_tokenizer_missing",
        &["error loading model vocabulary: {why}", "cannot find tokenizer {what}"],
        both("Tokenizer missing in the file", "Tokenizer fehlt in der Datei"),
        both(
            "the file has no usable tokenizer[ ({why})]: a faulty conversion, or not a language model",
            "die Datei hat keinen brauchbaren Tokenizer[ ({why})]: eine fehlerhafte Umwandlung, oder kein \
             Sprachmodell",
        ),
        &[change(
            "local_path",
            both("use another conversion of the model", "verwenden Sie eine andere Umwandlung des Modells"),
        )],
    ),
    log(
        "llamacpp_metadata_missing",
        &[
            "error loading model hyperparameters: key not found in model: {key}",
            "key not found in model: {key}",
        ],
        both("Metadata missing in the file", "Metadaten fehlen in der Datei"),
        both(
            "the file lacks `{key}`: it is an adapter, a faulty conversion, or made for another version",
            "der Datei fehlt `{key}`: sie ist ein Adapter, eine fehlerhafte Umwandlung, oder für eine \
             andere Version gemacht",
        ),
        &[
            change(
                "local_path",
                both(
                    "use another conversion of the model; a LoRA goes into `lora_adapters`",
                    "verwenden Sie eine andere Umwandlung des Modells; eine LoRA gehört in `lora_adapters`",
                ),
            ),
            NEWER,
        ],
    ),
    log(
        "llamacpp_metadata_invalid",
        &["error loading model hyperparameters: {why}"],
        both("Metadata wrong in the file", "Metadaten in der Datei falsch"),
        both("the file contradicts itself: {why}", "die Datei widerspricht sich: {why}"),
        &[
            change(
                "local_path",
                both(
                    "use another conversion of the model",
                    "verwenden Sie eine andere Umwandlung des Modells",
                ),
            ),
            NEWER,
        ],
    ),
    log(
        "llamacpp_tensor_missing",
        &["tensor '{tensor}' not found", "missing tensor '{tensor}'"],
        both("Tensor missing in the file", "Tensor fehlt in der Datei"),
        both(
            "the file lacks the tensor `{tensor}`: a faulty conversion, or a newer kind of model",
            "der Datei fehlt der Tensor `{tensor}`: eine fehlerhafte Umwandlung, oder eine neuere Art von \
             Modell",
        ),
        &[
            NEWER,
            change(
                "local_path",
                both(
                    "or use another conversion of the model",
                    "oder verwenden Sie eine andere Umwandlung des Modells",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_tensor_shape",
        &["tensor '{tensor}' has wrong shape; expected {expected}, got {got}"],
        both("Tensor of another shape", "Tensor mit anderer Form"),
        both(
            "the tensor `{tensor}` does not have the shape that the metadata announce",
            "der Tensor `{tensor}` hat nicht die Form, die die Metadaten ankündigen",
        ),
        &[
            NEWER,
            change(
                "local_path",
                both(
                    "or use another conversion of the model",
                    "oder verwenden Sie eine andere Umwandlung des Modells",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_tensor_count",
        &["wrong number of tensors; expected {expected#}, got {got#}"],
        both("Unknown tensors in the file", "Unbekannte Tensoren in der Datei"),
        both(
            "the file holds {expected} tensors and this build uses {got}: a newer kind of model",
            "die Datei enthält {expected} Tensoren, und dieser Build verwendet {got}: eine neuere Art von \
             Modell",
        ),
        &[
            NEWER,
            change(
                "local_path",
                both(
                    "or use another conversion of the model",
                    "oder verwenden Sie eine andere Umwandlung des Modells",
                ),
            ),
        ],
    ),
    log(
        "llamacpp_not_first_part",
        &[
            "illegal split file idx: {index#} (file: {path}), model must be loaded with the first split",
            "invalid split file",
        ],
        both("Not the first part", "Nicht der erste Teil"),
        both(
            "a model in several parts is loaded by naming the first one",
            "ein Modell in mehreren Teilen wird geladen, indem man den ersten nennt",
        ),
        &[set(
            "local_path",
            Made(values::first_part),
            both(
                "point to the part that ends in `-00001-of-…`",
                "nennen Sie den Teil, der mit `-00001-of-…` endet",
            ),
        )],
    ),
    log(
        "llamacpp_lora_not_usable",
        &[
            "llama_adapter_lora_init: failed to open '{path}': {why}",
            "failed to apply lora adapter: {why}",
            "failed to load lora adapter '{path}'",
        ],
        both("LoRA adapter not usable", "LoRA-Adapter nicht verwendbar"),
        both("an adapter can't be loaded[: {why}]", "ein Adapter kann nicht geladen werden[: {why}]"),
        &[change(
            "lora_adapters",
            both(
                "correct or remove it; adapters must be GGUF files made for this model",
                "berichtigen oder entfernen Sie ihn; Adapter müssen GGUF-Dateien sein, die für dieses Modell \
             gemacht wurden",
            ),
        )],
    ),
    log(
        "llamacpp_projector_not_usable",
        &["Failed to load CLIP model from {path}", "failed to load multimodal model, '{path}'"],
        both("Projector not usable", "Projektor nicht verwendbar"),
        both(
            "`{path}` can't be used as the model's projector",
            "`{path}` kann nicht als Projektor des Modells verwendet werden",
        ),
        &[set(
            "mmproj",
            Unset,
            both(
                "use the `mmproj-….gguf` that belongs to this model, or unset it",
                "verwenden Sie die `mmproj-….gguf`, die zu diesem Modell gehört, oder entfernen Sie die \
             Einstellung",
            ),
        )],
    ),
];
