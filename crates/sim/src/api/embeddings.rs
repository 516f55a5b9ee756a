//! `/v1/embeddings`, `/rerank` and `/score` in both forms.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{check_length, check_model, new_id};
use super::inputs;
use super::request::Fields;
use crate::config::{Config, Task};
use crate::engine::{Decode, Engine, Finish, unix_now};
use crate::flavour::Flavour;
use crate::reply::{Refusal, Reply, json_reply};
use crate::text;

/// Longest text per token of an embedding input, as vLLM counted for the recorded model.
const CHARS_PER_TOKEN: usize = 10;

pub(crate) async fn embeddings(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    if config.flavour == Flavour::Llamacpp && config.task == Task::Generate {
        return Err(unsupported("embeddings", "--embeddings"));
    }
    let input =
        fields.required(if config.flavour == Flavour::Vllm { &["input"] } else { &["input", "content"] })?;
    check_model(config, fields)?;
    let inputs = inputs::embedded(config.flavour, input)?;
    // Each input has a start and an end token.
    let tokens: Vec<u32> = inputs.iter().map(|input| text::count(input) + 2).collect();
    for (input, n) in inputs.iter().zip(&tokens) {
        check_input(config, input.len(), *n)?;
    }
    let total: u32 = tokens.iter().sum();
    let base64 = fields.text("encoding_format") == Some("base64");
    work(engine, total).await;
    let data: Vec<Value> =
        inputs.iter().enumerate().map(|(i, input)| datum(config.flavour, i, input, base64)).collect();
    let answer = match config.flavour {
        Flavour::Vllm => json!({
            "id": new_id("embd-"), "object": "list", "created": unix_now(), "model": config.name(), "data": data,
            "usage": vllm_usage(total)
        }),
        Flavour::Llamacpp => json!({
            "model": config.name(), "object": "list",
            "usage": {"prompt_tokens": total, "total_tokens": total}, "data": data
        }),
    };
    Ok(json_reply(config.flavour, 200, &answer))
}

pub(crate) async fn rerank(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    if config.flavour == Flavour::Llamacpp && config.task != Task::Rerank {
        return Err(unsupported("reranking", "--reranking"));
    }
    let query = &inputs::query(config.flavour, fields)?;
    let documents = inputs::documents(config.flavour, fields)?;
    check_model(config, fields)?;
    let total = pair_tokens(config, query, &documents)?;
    let top = fields.integer("top_n")?.filter(|n| *n > 0).map_or(documents.len(), |n| n as usize);
    work(engine, total).await;
    let mut scored: Vec<(usize, f64)> =
        documents.iter().enumerate().map(|(i, document)| (i, text::relevance(query, document))).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    scored.truncate(top);
    let usage = json!({"prompt_tokens": total, "total_tokens": total});
    let answer = match config.flavour {
        Flavour::Vllm => {
            let results: Vec<Value> = scored
                .iter()
                .map(|(i, score)| {
                    let document = json!({"text": documents[*i], "multi_modal": null});
                    json!({"index": i, "document": document, "relevance_score": score})
                })
                .collect();
            json!({"id": new_id("score-"), "model": config.name(), "usage": usage, "results": results})
        }
        Flavour::Llamacpp => {
            let results: Vec<Value> =
                scored.iter().map(|(i, score)| json!({"index": i, "relevance_score": score})).collect();
            json!({"model": config.name(), "object": "list", "usage": usage, "results": results})
        }
    };
    Ok(json_reply(config.flavour, 200, &answer))
}

/// vLLM only.
pub(crate) async fn score(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    let left = inputs::compared(fields, &["text_1", "queries"])?;
    let right = inputs::compared(fields, &["text_2", "documents"])?;
    check_model(config, fields)?;
    let query = left.first().cloned().unwrap_or_default();
    let total = pair_tokens(config, &query, &right)?;
    work(engine, total).await;
    let scores = right.iter().enumerate().map(|(i, document)| {
        // One text is compared with many, or the texts are compared pair by pair.
        let query = left.get(i).unwrap_or(&query);
        json!({"index": i, "object": "score", "score": text::relevance(query, document)})
    });
    let answer = json!({
        "id": new_id("score-"), "object": "list", "created": unix_now(), "model": config.name(),
        "data": scores.collect::<Vec<_>>(), "usage": vllm_usage(total)
    });
    Ok(json_reply(config.flavour, 200, &answer))
}

async fn work(engine: &Arc<Engine>, tokens: u32) {
    let mut decode = Decode::admit(engine, tokens);
    decode.start().await;
    decode.finish(Finish::Stop);
}

fn vllm_usage(total: u32) -> Value {
    json!({
        "prompt_tokens": total, "total_tokens": total, "completion_tokens": 0, "prompt_tokens_details": null,
        "completion_tokens_details": null
    })
}

fn datum(flavour: Flavour, index: usize, input: &str, base64: bool) -> Value {
    let vector = text::embed(input);
    let encoded = if base64 {
        let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
        json!(STANDARD.encode(bytes))
    } else {
        json!(vector)
    };
    match flavour {
        Flavour::Vllm => json!({"index": index, "object": "embedding", "embedding": encoded}),
        Flavour::Llamacpp if base64 => {
            json!({"embedding": encoded, "index": index, "object": "embedding", "encoding_format": "base64"})
        }
        Flavour::Llamacpp => json!({"embedding": encoded, "index": index, "object": "embedding"}),
    }
}

/// Returns the number of tokens of the pairs as a cross-encoder reads them: start, query, mark, document, end.
fn pair_tokens(config: &Config, query: &str, documents: &[String]) -> Result<u32, Refusal> {
    let mut total = 0;
    for document in documents {
        let n = text::count(query) + text::count(document) + 3;
        check_input(config, query.len() + document.len(), n)?;
        total += n;
    }
    Ok(total)
}

fn check_input(config: &Config, n_chars: usize, tokens: u32) -> Result<(), Refusal> {
    match config.flavour {
        Flavour::Vllm => check_length(config.context, n_chars, CHARS_PER_TOKEN, tokens),
        Flavour::Llamacpp if tokens > config.batch => {
            let text = format!(
                "input ({tokens} tokens) is too large to process. increase the physical batch size (current batch \
                 size: {})",
                config.batch
            );
            Err(Refusal::new(500, "server_error", text))
        }
        Flavour::Llamacpp => Ok(()),
    }
}

fn unsupported(what: &str, flag: &str) -> Refusal {
    let text = format!("This server does not support {what}. Start it with `{flag}`");
    Refusal::new(501, "not_supported_error", text)
}
