//! Failures to fetch a model from the hub.
//!
//! vLLM's texts are those of `huggingface_hub` 2.4 and `transformers` 5.19, provoked with a hub that answers 403, 401
//! and 404; llama.cpp's (b11434) likewise.

use super::{
    signature::{
        Advice, Signature, Target,
        Try::{Made, Text},
        When, change, change_first, set, tip,
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
        "No access to this model",
        "the hub shows this model only to people who accepted its conditions",
        &[
            tip("accept the conditions on the model's page at the hub"),
            change("hub_token", "set an access token of the person who accepted them, with read access"),
        ],
    )
    .or(&["Client error '403 Forbidden' for url '{url}'"]),
    log(
        "hub_token_refused",
        &[
            "Invalid user token",
            "Invalid credentials in Authorization header",
            "GET failed (401)",
        ],
        "Not signed in at the hub",
        "the hub refuses the access token, or wants one: this repository is private, or its name is wrong",
        &[
            change("hub_token", "set or renew the access token"),
            change_first(SOURCES, "check the repository's name"),
        ],
    )
    .or(&["Client error '401 Unauthorized' for url '{url}'", "401 Client Error"]),
    Signature::new(
        "hub_file_not_found",
        Some(Vllm),
        When::Log(&["RemoteEntryNotFoundError", ".EntryNotFoundError: ", "Entry Not Found for url"]),
        "File missing at the hub",
        "the repository is there, but not a file that the engine needs: it may hold only GGUF files, or an adapter",
        &[
            change_first(SOURCES, "use the repository of the original checkpoint, which has a `config.json`"),
            tip("GGUF files are for models of the llamacpp engine"),
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
        "No such model at the hub",
        "the hub has no repository of this name, or does not show it without a token that may read it",
        &[
            change_first(SOURCES, "check the name: `organisation/model`"),
            change("hub_token", "a private repository needs an access token"),
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
        "Hub not reachable",
        "the engine can't reach the model hub from its container",
        &[
            tip("check the network, the name server and the proxy of the host and of containers"),
            set("mode", Text("offline"), "or copy the model to this machine and use `local_path`"),
        ],
    ),
    log(
        "hub_tokenizer_not_cached",
        &["outgoing traffic has been disabled", "LocalEntryNotFoundError", "OfflineModeIsEnabled"],
        "Tokenizer not downloaded",
        "the weights are here, but the tokenizer has to be fetched from the hub, and the model or the system is in \
         offline mode",
        &[
            change("tokenizer", "point it to a folder on this machine, as the container sees it (below `/models/`)"),
            Advice {
                text: "or start the model once while the system is online, without `mode` `offline`: the tokenizer is \
                       fetched and stays in the cache",
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
        "Model not downloaded",
        "something has to be fetched from the hub, and the system is in offline mode",
        &[
            tip("fetch the model while the machine is online; it stays in the cache"),
            change("local_path", "or copy the files below the models base directory"),
        ],
    ),
    // Without a network llama-server drops the model and then complains that there is none.
    log(
        "hub_download_failed",
        &["exactly one out metadata, path_model, and file must be defined", "failed to download"],
        "Model not downloaded",
        "the model is neither in the cache nor could it be fetched",
        &[
            tip("fetch the model while the machine is online; it stays in the cache"),
            change("repo_id", "check the repository's name, and that it holds GGUF files"),
        ],
    ),
];
