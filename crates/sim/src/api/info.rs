//! Endpoints that describe the server: health, models, settings, tokens, and the simulator's own statistics.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use super::answer::new_id;
use super::chat::content;
use super::request::Fields;
use super::{Endpoint, metrics};
use crate::config::Config;
use crate::engine::{Engine, unix_now};
use crate::flavour::Flavour;
use crate::reply::{Refusal, Reply, empty_reply, json_reply, text_reply};
use crate::text::{self, TRAINED_CONTEXT};

/// Answers a GET.
pub(super) fn read(engine: &Engine, endpoint: Endpoint) -> Reply {
    let config = &engine.config;
    let flavour = config.flavour;
    let value = match endpoint {
        Endpoint::Health if flavour == Flavour::Vllm => return empty_reply(flavour),
        Endpoint::Health => json!({"status": "ok"}),
        Endpoint::Version => json!({"version": config.version.to_string()}),
        Endpoint::Load => json!({"server_load": engine.counters.in_flight.load(Relaxed)}),
        Endpoint::Metrics if !config.metrics => {
            return off(config, "This server does not support metrics endpoint. Start it with `--metrics`");
        }
        Endpoint::Metrics => {
            let content_type = match flavour {
                Flavour::Vllm => "text/plain; version=1.0.0; charset=utf-8",
                Flavour::Llamacpp => "text/plain; version=0.0.4",
            };
            return text_reply(flavour, content_type, metrics::render(engine));
        }
        Endpoint::Props => props(config),
        Endpoint::Slots if !config.slots_endpoint => {
            return off(config, "This server does not support slots endpoint. Start it with `--slots`");
        }
        Endpoint::Slots => slots(engine),
        Endpoint::LoraAdapters => json!([]),
        _ => match flavour {
            Flavour::Vllm => vllm_models(config),
            Flavour::Llamacpp => llama_models(config),
        },
    };
    json_reply(flavour, 200, &value)
}

fn off(config: &Config, why: &str) -> Reply {
    Refusal::new(501, "not_supported_error", why).reply(config, false)
}

/// Returns the statistics so far; `requests` = completed + cancelled + failed + `in_flight`.
pub(super) fn stats(engine: &Engine) -> Value {
    let counters = &engine.counters;
    json!({
        "simulator": true,
        "requests": counters.requests.load(Relaxed),
        "completed": counters.completed.load(Relaxed),
        "cancelled": counters.cancelled.load(Relaxed),
        "failed": counters.failed.load(Relaxed),
        "tokens_generated": counters.tokens_generated.load(Relaxed),
        "prompt_tokens": counters.prompt_tokens.load(Relaxed),
        "in_flight": counters.in_flight.load(Relaxed)
    })
}

fn vllm_models(config: &Config) -> Value {
    let now = unix_now();
    let data: Vec<Value> = config
        .names
        .iter()
        .map(|name| {
            json!({
                "id": name, "object": "model", "created": now, "owned_by": "vllm", "root": config.model,
                "parent": null, "max_model_len": config.context,
                "permission": [{
                    "id": new_id("modelperm-"), "object": "model_permission", "created": now,
                    "allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true,
                    "allow_search_indices": false, "allow_view": true, "allow_fine_tuning": false,
                    "organization": "*", "group": null, "is_blocking": false
                }]
            })
        })
        .collect();
    json!({"object": "list", "data": data})
}

fn llama_models(config: &Config) -> Value {
    if config.router {
        return json!({"data": [], "object": "list"});
    }
    let name = config.name();
    json!({
        "models": [{
            "name": name, "model": name, "modified_at": "", "size": "", "digest": "", "type": "model",
            "description": "", "tags": [""], "capabilities": ["completion"], "parameters": "",
            "details": {
                "parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": "",
                "quantization_level": ""
            }
        }],
        "object": "list",
        "data": [{
            "id": name, "aliases": config.names, "tags": [], "object": "model",
            "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
            "created": unix_now(), "owned_by": "llamacpp",
            "meta": {
                "vocab_type": 1, "n_vocab": 30_256, "n_ctx": config.context, "n_ctx_train": TRAINED_CONTEXT,
                "n_embd": text::DIMENSIONS, "n_params": 196_928, "size": 394_496, "ftype": "F16"
            }
        }]
    })
}

fn props(config: &Config) -> Value {
    let params = json!({
        "seed": u32::MAX, "temperature": 0.8, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "top_k": 40,
        "top_p": 0.95, "min_p": 0.05, "top_n_sigma": -1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1,
        "typical_p": 1.0, "repeat_last_n": 64, "repeat_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2,
        "dry_penalty_last_n": 64, "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "adaptive_target": -1.0,
        "adaptive_decay": 0.9, "max_tokens": -1, "n_predict": -1, "n_keep": 0, "n_discard": 0, "ignore_eos": false,
        "stream": false, "n_probs": 0, "min_keep": 0, "chat_format": "Content-only", "reasoning_format": "none",
        "reasoning_in_content": false, "generation_prompt": "",
        "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
        "speculative.types": if config.speculative { "draft-simple" } else { "none" },
        "timings_per_token": false, "post_sampling_probs": false, "backend_sampling": false, "lora": []
    });
    json!({
        "default_generation_settings": {"params": params, "n_ctx": config.context},
        "total_slots": config.slots, "model_alias": config.name(), "model_ftype": "F16",
        "model_path": config.model, "modalities": {"vision": false, "video": false, "audio": false},
        "media_marker": "<__media__>", "endpoint_slots": config.slots_endpoint, "endpoint_props": false,
        "endpoint_metrics": config.metrics, "ui": false, "ui_settings": {},
        "chat_template": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}",
        "chat_template_caps": {
            "supports_object_arguments": false, "supports_parallel_tool_calls": false,
            "supports_preserve_reasoning": false, "supports_reasoning_effort": false, "supports_string_content": true,
            "supports_system_role": true, "supports_tool_calls": true, "supports_tools": true,
            "supports_typed_content": false
        },
        "bos_token": "<s>", "eos_token": "<|im_end|>", "build_info": config.fingerprint(), "is_sleeping": false,
        "cors_proxy_enabled": false
    })
}

fn slots(engine: &Engine) -> Value {
    let config = &engine.config;
    let busy = engine.counters.in_flight.load(Relaxed).saturating_sub(engine.counters.waiting.load(Relaxed));
    let slot = |id: u32| {
        json!({
            "id": id, "n_ctx": config.context, "speculative": config.speculative,
            "is_processing": u64::from(id) < busy
        })
    };
    (0..config.slots).map(slot).collect()
}

/// `/tokenize`, `/detokenize` and `/apply-template`.
pub(super) fn tokens(engine: &Engine, endpoint: Endpoint, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    let value = match (endpoint, config.flavour) {
        (Endpoint::Tokenize, Flavour::Vllm) => {
            fields.required(&["prompt", "messages"])?;
            let ids = match fields.text("prompt") {
                Some(prompt) => text::ids(prompt),
                None => text::ids(&conversation(fields)),
            };
            json!({"count": ids.len(), "max_model_len": config.context, "tokens": ids, "token_strs": null})
        }
        (Endpoint::Tokenize, Flavour::Llamacpp) => {
            json!({"tokens": text::ids(fields.text("content").unwrap_or(""))})
        }
        (Endpoint::ApplyTemplate, _) => {
            fields.required(&["messages"])?;
            json!({"prompt": conversation(fields)})
        }
        (_, flavour) => {
            let ids = fields.required(&["tokens"])?.as_array().map_or(0, Vec::len);
            // Ids are hashes here, so the original words can't be restored. Only their number is right.
            let words = vec!["word"; ids].join(" ");
            match flavour {
                Flavour::Vllm => json!({"prompt": words}),
                Flavour::Llamacpp => json!({"content": words}),
            }
        }
    };
    Ok(json_reply(config.flavour, 200, &value))
}

fn conversation(fields: &Fields) -> String {
    let messages = fields.get("messages").and_then(Value::as_array);
    let mut whole = String::new();
    for message in messages.into_iter().flatten() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        let _ = writeln!(whole, "<|im_start|>{role}\n{}<|im_end|>", content(message.get("content")));
    }
    whole.push_str("<|im_start|>assistant\n");
    whole
}
