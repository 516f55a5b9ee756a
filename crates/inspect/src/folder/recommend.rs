//! Which engine fits what was found, in words for the person who adds the model.

use gantry_domain::model::EngineKind;

use super::response::{EngineRecommendation, GgufGroup, SafetensorInfo, Status};
use crate::TaskHint;

/// What the choice depends on.
pub(super) struct Findings<'a> {
    pub(super) groups: &'a [GgufGroup],
    pub(super) checkpoint: Option<&'a SafetensorInfo>,
    pub(super) has_gguf: bool,
    pub(super) has_safetensors: bool,
    /// `PyTorch` weights with a `config.json`, in this folder.
    pub(super) pytorch: Option<String>,
    /// Adapters or encoders without a model.
    pub(super) only_side_files: bool,
}

/// A checkpoint that is whole goes to vLLM, a GGUF model that is whole to llama.cpp; with both, vLLM, whose
/// throughput with many callers is better. What is damaged is never recommended.
pub(super) fn recommend(findings: &Findings<'_>) -> EngineRecommendation {
    let ready = findings.groups.iter().filter(|it| it.status == Status::Ready);
    // The largest of those with the least to warn about.
    let gguf = ready.min_by_key(|it| it.warnings.len());
    let checkpoint = findings.checkpoint.filter(|it| it.status == Status::Ready);
    let pytorch = findings.pytorch.as_ref();
    let vllm = EngineKind::Vllm.as_str();

    let (engine, format, reason, path, task) = match (checkpoint, gguf) {
        (Some(it), Some(_)) => {
            let reason = format!(
                "{} and GGUF files are both here. vLLM serves the safetensors with the higher throughput but needs \
                 them to fit in GPU memory; choose llama.cpp with a GGUF file for a CPU or a small GPU.",
                checkpoint_words(it)
            );
            (vllm, "safetensors", reason, Some(it.path.clone()), Some(it.task))
        }
        (Some(it), None) => {
            let broken =
                if findings.has_gguf { " The GGUF files here can't be used; see the errors." } else { "" };
            let reason = format!("{}: vLLM loads it directly.{broken}", checkpoint_words(it));
            (vllm, "safetensors", reason, Some(it.path.clone()), Some(it.task))
        }
        (None, Some(it)) => {
            let broken = match findings.checkpoint {
                Some(_) => " The safetensors checkpoint here can't be used; see its errors.",
                None => "",
            };
            let parts = if it.is_multipart { " llama.cpp loads all parts when given the first." } else { "" };
            let reason =
                format!("{}: llama.cpp serves it on GPU, CPU or both.{parts}{broken}", group_words(it));
            (EngineKind::Llamacpp.as_str(), "gguf", reason, Some(it.path.clone()), Some(it.task))
        }
        (None, None) if pytorch.is_some() && findings.checkpoint.is_none() => {
            let reason = "PyTorch weights (pytorch_model*.bin) without safetensors: vLLM loads them, but they can run \
                          code on loading; prefer a safetensors copy.";
            (vllm, "pytorch", reason.to_owned(), pytorch.cloned(), None)
        }
        (None, None) => ("none", "none", nothing(findings).to_owned(), None, None),
    };
    EngineRecommendation {
        recommended_engine: engine.to_owned(),
        recommended_format: format.to_owned(),
        reason,
        has_multipart_gguf: findings.groups.iter().any(|it| it.is_multipart),
        has_safetensors: findings.has_safetensors,
        has_gguf: findings.has_gguf,
        path,
        task,
    }
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

fn nothing(findings: &Findings<'_>) -> &'static str {
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
