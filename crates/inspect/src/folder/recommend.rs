//! Recommends the engine for what was found, in words for the person who adds the model.

use gantry_domain::model::{EngineKind, Task};
use serde_json::{Map, Value};

use super::response::{EngineRecommendation, GgufGroup, SafetensorInfo, Status};
use crate::{About, LLAMACPP_LISTED, TaskHint};

/// The findings on which the choice depends.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts")]
pub(super) struct Findings<'a> {
    pub(super) groups: &'a [GgufGroup],
    pub(super) checkpoint: Option<&'a SafetensorInfo>,
    /// Whether vLLM is not known to support the checkpoint's architecture.
    pub(super) foreign: bool,
    /// Whether vLLM does not load the checkpoint's quantisation.
    pub(super) unloadable: bool,
    /// Number of GGUF files that were found and not read.
    pub(super) unread: usize,
    pub(super) has_gguf: bool,
    pub(super) has_safetensors: bool,
    /// The folder that holds `PyTorch` weights with a `config.json`.
    pub(super) pytorch: Option<String>,
    /// Whether there are adapters or encoders but no model.
    pub(super) only_side_files: bool,
    /// What is there in place of a model.
    pub(super) instead: Option<String>,
}

/// Recommends vLLM for a complete checkpoint and llama.cpp for a complete GGUF model; if both are there, vLLM, whose
/// throughput with many callers is better. A damaged model is never recommended. If the engine may not support the
/// model, the recommendation says so.
pub(super) fn recommend(findings: &Findings<'_>) -> EngineRecommendation {
    let ready = findings.groups.iter().filter(|it| it.status == Status::Ready);
    // This takes the largest of the models with the fewest warnings; models that may not start come last.
    let gguf = ready.min_by_key(|it| (is_foreign(it), it.warnings.len()));
    let checkpoint = findings.checkpoint.filter(|it| it.status == Status::Ready && !findings.unloadable);
    let pytorch = findings.pytorch.as_ref();

    let choice = match (checkpoint, gguf) {
        (Some(it), gguf) if !findings.foreign || gguf.is_none_or(is_foreign) => {
            Choice::checkpoint(it, checkpoint_reason(findings, it, gguf.is_some()))
        }
        (checkpoint, Some(it)) => Choice {
            engine: Some(EngineKind::Llamacpp),
            format: "gguf",
            reason: gguf_reason(findings, it, checkpoint.is_some()),
            path: Some(it.path.clone()),
            task: Some(it.task),
        },
        (_, None) if pytorch.is_some() && findings.checkpoint.is_none() => Choice {
            engine: Some(EngineKind::Vllm),
            format: "pytorch",
            reason: "PyTorch weights (pytorch_model*.bin) without safetensors: vLLM loads them, but they can run code \
                     on loading; prefer a safetensors copy."
                .to_owned(),
            path: pytorch.cloned(),
            task: None,
        },
        (_, None) => Choice { engine: None, format: "none", reason: nothing(findings), path: None, task: None },
    };
    let Choice { engine, format, reason, path, task } = choice;
    EngineRecommendation {
        settings: engine.zip(path.as_ref()).map(|(engine, path)| settings(engine, path, task)),
        recommended_engine: engine.map_or("none", EngineKind::as_str).to_owned(),
        recommended_format: format.to_owned(),
        reason,
        has_multipart_gguf: findings.groups.iter().any(|it| it.is_multipart),
        has_safetensors: findings.has_safetensors,
        has_gguf: findings.has_gguf,
        path,
        task,
    }
}

/// What is recommended, and why.
struct Choice {
    /// `None`: nothing can be served.
    engine: Option<EngineKind>,
    format: &'static str,
    /// A sentence for people.
    reason: String,
    path: Option<String>,
    task: Option<TaskHint>,
}

impl Choice {
    fn checkpoint(it: &SafetensorInfo, reason: String) -> Self {
        Self {
            engine: Some(EngineKind::Vllm),
            format: "safetensors",
            reason,
            path: Some(it.path.clone()),
            task: Some(it.task),
        }
    }
}

/// Says why the checkpoint is to be served. `beside_gguf`: a GGUF model that could be served is there too.
fn checkpoint_reason(findings: &Findings<'_>, it: &SafetensorInfo, beside_gguf: bool) -> String {
    let what = checkpoint_words(it);
    if beside_gguf && !findings.foreign {
        return format!(
            "{what} and GGUF files are both here. vLLM serves the safetensors with the higher throughput but needs \
             them to fit in GPU memory; choose llama.cpp with a GGUF file for a CPU or a small GPU."
        );
    }
    let broken = findings.has_gguf && !beside_gguf;
    let broken = if broken { " The GGUF files here can't be used; see the errors." } else { "" };
    if findings.foreign {
        let architecture = it.architecture.as_deref().unwrap_or_default();
        return format!(
            "{what} of the architecture `{architecture}`, which vLLM 0.32 does not know: only a newer vLLM, or one \
             whose transformers knows it, loads it.{broken}"
        );
    }
    format!("{what}: vLLM loads it directly.{broken}")
}

/// Says why the GGUF model is to be served. `beside_checkpoint`: a complete checkpoint is there too.
fn gguf_reason(findings: &Findings<'_>, it: &GgufGroup, beside_checkpoint: bool) -> String {
    let other = match (beside_checkpoint, findings.checkpoint) {
        (true, _) => " vLLM 0.32 does not know the architecture of the safetensors checkpoint beside it.",
        (false, Some(_)) if findings.unloadable => {
            " vLLM does not load the quantisation of the checkpoint beside it."
        }
        (false, Some(_)) => " The safetensors checkpoint here can't be used; see its errors.",
        (false, None) => "",
    };
    let parts = if it.is_multipart { " llama.cpp loads all parts when given the first." } else { "" };
    let does = if is_foreign(it) {
        format!("llama.cpp b{LLAMACPP_LISTED} does not know its architecture: only a newer one loads it.")
    } else {
        "llama.cpp serves it on GPU, CPU or both.".to_owned()
    };
    format!("{}: {does}{parts}{other}", group_words(it))
}

/// Returns the fields of a create request for it, except its name.
fn settings(engine: EngineKind, path: &str, task: Option<TaskHint>) -> Map<String, Value> {
    let served = match task {
        None | Some(TaskHint::Generate) => Task::Generate,
        Some(TaskHint::Embed | TaskHint::Rerank) => Task::Embed,
    };
    let mut settings = Map::from_iter([
        ("engine_type".to_owned(), engine.as_str().into()),
        ("local_path".to_owned(), path.into()),
        ("task".to_owned(), served.as_str().into()),
    ]);
    if engine == EngineKind::Llamacpp && task == Some(TaskHint::Rerank) {
        settings.insert("pooling".to_owned(), "rank".into());
    }
    settings
}

/// Whether llama.cpp is not known to support its architecture.
fn is_foreign(group: &GgufGroup) -> bool {
    group.concerns.iter().any(|it| it.about == About::Architecture)
}

fn checkpoint_words(it: &SafetensorInfo) -> String {
    let quantization = it.quantization.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
    format!("{} checkpoint in safetensors{quantization}", task_words(it.task))
}

fn group_words(it: &GgufGroup) -> String {
    format!("{} model in GGUF, {}", task_words(it.task), it.quant_type)
}

fn task_words(task: TaskHint) -> &'static str {
    match task {
        TaskHint::Generate => "A text-generation",
        TaskHint::Embed => "An embedding",
        TaskHint::Rerank => "A reranking",
    }
}

fn nothing(findings: &Findings<'_>) -> String {
    if findings.unread > 0 {
        let found = "No model that can be loaded was found in what was read";
        return format!("{found}, but {} GGUF files were not; see the warnings.", findings.unread);
    }
    if let Some(it) = findings.checkpoint.filter(|it| it.status == Status::Ready) {
        let what = checkpoint_words(it);
        return format!(
            "{what}: vLLM does not load this quantisation. Look for a copy in another one, or in GGUF."
        );
    }
    match &findings.instead {
        Some(it) if findings.groups.is_empty() && findings.checkpoint.is_none() => it.clone(),
        _ => nothing_read(findings).to_owned(),
    }
}

fn nothing_read(findings: &Findings<'_>) -> &'static str {
    let incomplete = findings.groups.iter().any(|it| it.status == Status::Incomplete)
        || findings.checkpoint.is_some_and(|it| it.status == Status::Incomplete);
    if incomplete {
        "The model is incomplete: files are missing. Finish the download, then inspect again."
    } else if findings.has_gguf && !findings.groups.is_empty() || findings.checkpoint.is_some() {
        "There are model files, but none can be loaded; see the errors."
    } else if findings.only_side_files {
        "Only adapters or encoders are here; they are added to a model, not served by themselves."
    } else {
        "There are no model files (.gguf or .safetensors) here."
    }
}
