//! Failures to fetch a model from the hub.
//!
//! vLLM's texts are those of `huggingface_hub` 2.4 and `transformers` 5.19, provoked with a hub that answers 403, 401
//! and 404; llama.cpp's (b11434) likewise.

use super::{
    signature::{
        Advice, Both, Signature, Target,
        Try::{Made, Text},
        When, both, change, change_first, set, tip,
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
    Signature::new(id, None, When::Log(patterns), title, message, fixes)
}

/// Fields that name a repository, the model's own first.
const SOURCES: &[&str] = &["repo_id", "tokenizer"];

/// Signatures, in the order in which they are tried.
pub(super) const SIGNATURES: &[Signature] = &[
    log(
        "hub_access_restricted",
        &[
            "GatedRepoError",
            "You are trying to access a gated repo",
            "Access to model {repo} is restricted",
            "Cannot access gated repo",
        ],
        both("No access to this model", "Kein Zugriff auf dieses Modell"),
        both(
            "the hub shows this model only to people who accepted its conditions",
            "der Hub zeigt dieses Modell nur Personen, die seine Bedingungen akzeptiert haben",
        ),
        &[
            tip(both(
                "accept the conditions on the model's page at the hub",
                "akzeptieren Sie die Bedingungen auf der Seite des Modells im Hub",
            )),
            change(
                "hub_token",
                both(
                    "set an access token of the person who accepted them, with read access",
                    "setzen Sie ein Zugriffstoken mit Leserecht der Person, die sie akzeptiert hat",
                ),
            ),
        ],
    )
    .or(&["Client error '403 Forbidden' for url '{url}'"]),
    log(
        "hub_token_refused",
        &["Invalid user token", "Invalid credentials in Authorization header", "GET failed (401)"],
        both("Not signed in at the hub", "Nicht am Hub angemeldet"),
        both(
            "the hub refuses the access token, or wants one: this repository is private, or its name is \
             wrong",
            "der Hub lehnt das Zugriffstoken ab oder verlangt eines: das Repository ist privat, oder sein \
             Name ist falsch",
        ),
        &[
            change(
                "hub_token",
                both("set or renew the access token", "setzen oder erneuern Sie das Zugriffstoken"),
            ),
            change_first(
                SOURCES,
                both("check the repository's name", "prüfen Sie den Namen des Repositorys"),
            ),
        ],
    )
    .or(&["Client error '401 Unauthorized' for url '{url}'", "401 Client Error"]),
    Signature::new(
        "hub_file_not_found",
        Some(Vllm),
        When::Log(&["RemoteEntryNotFoundError", ".EntryNotFoundError: ", "Entry Not Found for url"]),
        both("File missing at the hub", "Datei fehlt im Hub"),
        both(
            "the repository is there, but not a file that the engine needs: it may hold only GGUF files, \
             or an adapter",
            "das Repository ist vorhanden, aber eine Datei, die die Engine braucht, fehlt: vielleicht \
             enthält es nur GGUF-Dateien oder einen Adapter",
        ),
        &[
            change_first(
                SOURCES,
                both(
                    "use the repository of the original checkpoint, which has a `config.json`",
                    "verwenden Sie das Repository des ursprünglichen Checkpoints, das eine `config.json` hat",
                ),
            ),
            tip(both(
                "GGUF files are for models of the llamacpp engine",
                "GGUF-Dateien sind für Modelle der Engine llamacpp",
            )),
        ],
    ),
    log(
        "hub_repository_not_found",
        &[
            "RepositoryNotFoundError",
            "Repository Not Found for url",
            "GET failed (404)",
            "is not a valid model identifier listed on",
        ],
        both("No such model at the hub", "Kein solches Modell im Hub"),
        both(
            "the hub has no repository of this name, or does not show it without a token that may read it",
            "der Hub hat kein Repository dieses Namens, oder er zeigt es nicht ohne ein Token, das es \
             lesen darf",
        ),
        &[
            change_first(
                SOURCES,
                both("check the name: `organisation/model`", "prüfen Sie den Namen: `organisation/model`"),
            ),
            change(
                "hub_token",
                both(
                    "a private repository needs an access token",
                    "ein privates Repository braucht ein Zugriffstoken",
                ),
            ),
        ],
    )
    .or(&["Client error '404 Not Found' for url '{url}'", "404 Client Error"]),
    log(
        "hub_not_reachable",
        &[
            "Name or service not known",
            "Temporary failure in name resolution",
            "ConnectError: [Errno {code#}] {why}",
            "Could not establish connection",
            "HTTPLIB failed: {why}",
            "We couldn't connect to '{url}'",
            "Max retries exceeded with url",
            "failed to fetch model metadata",
        ],
        both("Hub not reachable", "Hub nicht erreichbar"),
        both(
            "the engine can't reach the model hub from its container",
            "die Engine erreicht den Modell-Hub aus ihrem Container nicht",
        ),
        &[
            tip(both(
                "check the network, the name server and the proxy of the host and of containers",
                "prüfen Sie das Netzwerk, den Nameserver und den Proxy des Hosts und der Container",
            )),
            set(
                "mode",
                Text("offline"),
                both(
                    "or copy the model to this machine and use `local_path`",
                    "oder kopieren Sie das Modell auf diese Maschine und verwenden Sie `local_path`",
                ),
            ),
        ],
    ),
    log(
        "hub_tokenizer_not_cached",
        &["outgoing traffic has been disabled", "LocalEntryNotFoundError", "OfflineModeIsEnabled"],
        both("Tokenizer not downloaded", "Tokenizer nicht geladen"),
        both(
            "the weights are here, but the tokenizer has to be fetched from the hub, and the model or the \
             system is in offline mode",
            "die Gewichte sind vorhanden, aber der Tokenizer muss vom Hub geladen werden, und das Modell \
             oder das System ist im Offline-Modus",
        ),
        &[
            change(
                "tokenizer",
                both(
                    "point it to a folder on this machine, as the container sees it (below `/models/`)",
                    "nennen Sie einen Ordner auf dieser Maschine, wie der Container ihn sieht (unter \
                     `/models/`)",
                ),
            ),
            Advice {
                text: both(
                    "or start the model once while the system is online, without `mode` `offline`: the \
                     tokenizer is fetched and stays in the cache",
                    "oder starten Sie das Modell einmal ohne `mode` `offline`, während das System online \
                     ist: der Tokenizer wird geladen und bleibt im Cache",
                ),
                target: Target::Field("mode"),
                value: Made(values::unset),
            },
        ],
    )
    .unless(|config| config.is_online() || config.text("tokenizer").is_none()),
    log(
        "hub_model_not_cached",
        &[
            "outgoing traffic has been disabled",
            "LocalEntryNotFoundError",
            "OfflineModeIsEnabled",
            "Cannot reach {url}: offline mode is enabled",
        ],
        both("Model not downloaded", "Modell nicht geladen"),
        both(
            "something has to be fetched from the hub, and the system is in offline mode",
            "etwas muss vom Hub geladen werden, und das System ist im Offline-Modus",
        ),
        &[
            tip(both(
                "fetch the model while the machine is online; it stays in the cache",
                "laden Sie das Modell, während die Maschine online ist; es bleibt im Cache",
            )),
            change(
                "local_path",
                both(
                    "or copy the files below the models base directory",
                    "oder kopieren Sie die Dateien in den Modellordner",
                ),
            ),
        ],
    ),
    // Without a network llama-server drops the model and then complains that there is none.
    log(
        "hub_download_failed",
        &["exactly one out metadata, path_model, and file must be defined", "failed to download"],
        both("Model not downloaded", "Modell nicht geladen"),
        both(
            "the model is neither in the cache nor could it be fetched",
            "das Modell ist nicht im Cache und konnte auch nicht geladen werden",
        ),
        &[
            tip(both(
                "fetch the model while the machine is online; it stays in the cache",
                "laden Sie das Modell, während die Maschine online ist; es bleibt im Cache",
            )),
            change(
                "repo_id",
                both(
                    "check the repository's name, and that it holds GGUF files",
                    "prüfen Sie den Namen des Repositorys, und ob es GGUF-Dateien enthält",
                ),
            ),
        ],
    ),
];
