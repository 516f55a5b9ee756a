//! `/v1/chat/completions`: reads the conversation, decides about tools and templates.

use std::sync::Arc;

use serde_json::Value;

use super::answer::{self, Ask, Forced, Shape, check_model, plan};
use super::chat_llama::LlamaChat;
use super::chat_vllm::VllmChat;
use super::request::{Fields, invalid, shown};
use super::send::give;
use crate::config::Config;
use crate::engine::Engine;
use crate::flavour::{Flavour, Version};
use crate::reply::{Refusal, Reply};
use crate::text;

/// First release that was seen to refuse `tool_choice="required"` without a tool parser.
const REQUIRED_NEEDS_PARSER: Version = Version(0, 32, 0);
pub(crate) const NO_TEMPLATE: &str = "As of transformers v4.44, default chat template is no longer allowed, so you \
     must provide a chat template if the tokenizer does not define one.";
const EMPTY: &str = "Cannot apply chat template to an empty conversation. Provide at least one message.";

pub(crate) async fn answer(engine: &Arc<Engine>, fields: &Fields) -> Result<Reply, Refusal> {
    let config = &engine.config;
    let messages = fields.required(&["messages"])?;
    let Value::Array(messages) = messages else {
        return Err(match config.flavour {
            Flavour::Vllm => {
                invalid("list_type", "body.messages", "Input should be a valid list", &shown(messages))
            }
            Flavour::Llamacpp => Refusal::bad(config.flavour, "Expected 'messages' to be an array"),
        });
    };
    check_model(config, fields)?;
    let forced = tools(config, fields)?;
    let mut ask = answer::read(config, fields, &["max_completion_tokens", "max_tokens"], "stop")?;
    template(config, messages.len())?;
    conversation(config.flavour, messages, &mut ask);
    ask.forced = forced.or_else(|| json_format(fields));
    if fields.flag("logprobs")? {
        ask.logprobs = Some(fields.integer("top_logprobs")?.unwrap_or(0).clamp(0, 20) as usize);
    }
    let planned = plan(engine, &ask, "chatcmpl-")?;
    let shape: Box<dyn Shape> = match config.flavour {
        Flavour::Vllm => Box::new(VllmChat { plan: planned }),
        Flavour::Llamacpp => Box::new(LlamaChat { plan: planned }),
    };
    give(engine, ask.stream, shape).await
}

/// Refuses what vLLM refuses: a model without a template, or an empty conversation.
pub(crate) fn template(config: &Config, n_messages: usize) -> Result<(), Refusal> {
    match config.flavour {
        Flavour::Vllm if config.faults.no_chat_template => Err(Refusal::bad(config.flavour, NO_TEMPLATE)),
        Flavour::Vllm if n_messages == 0 => Err(Refusal::bad(config.flavour, EMPTY)),
        _ => Ok(()),
    }
}

/// Fills in the prompt of a conversation and its length with the template's overhead: 4 tokens
/// and 6 per message for vLLM, 1 and 14 for llama.cpp, as in the recorded answers.
pub(crate) fn conversation(flavour: Flavour, messages: &[Value], ask: &mut Ask) {
    let (base, each) = match flavour {
        Flavour::Vllm => (4, 6),
        Flavour::Llamacpp => (1, 14),
    };
    let texts: Vec<String> = messages.iter().map(|message| content(message.get("content"))).collect();
    ask.prompt_tokens = texts.iter().map(|text| text::count(text) + each).sum::<u32>() + base;
    ask.n_chars = texts.iter().map(String::len).sum::<usize>() + 50;
    ask.prompts = vec![texts.join("\n")];
}

/// The text of a message: a string, or the text parts of a list.
pub(crate) fn content(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Decides whether a tool has to be called, and with which arguments.
fn tools(config: &Config, fields: &Fields) -> Result<Option<Forced>, Refusal> {
    let Some(Value::Array(tools)) = fields.get("tools") else { return Ok(None) };
    let flavour = config.flavour;
    if flavour == Flavour::Llamacpp && !config.tool_parser {
        return Err(Refusal::new(500, "server_error", "tools param requires --jinja flag"));
    }
    let named =
        fields.get("tool_choice").and_then(|choice| choice.pointer("/function/name")).and_then(Value::as_str);
    let wanted = match (fields.text("tool_choice"), named) {
        (_, Some(name)) => {
            tools.iter().find(|tool| tool.pointer("/function/name").and_then(Value::as_str) == Some(name))
        }
        (Some("required"), _) => {
            if flavour == Flavour::Vllm && !config.tool_parser && config.version >= REQUIRED_NEEDS_PARSER {
                let text = "tool_choice=\"required\" requires --tool-call-parser to be set";
                return Err(Refusal::bad(flavour, text));
            }
            tools.first()
        }
        (Some("none"), _) => return Ok(None),
        _ if flavour == Flavour::Vllm && !(config.auto_tools && config.tool_parser) => {
            let text =
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
            return Err(Refusal::bad(flavour, text));
        }
        _ => return Ok(None),
    };
    let Some(function) = wanted.and_then(|tool| tool.get("function")) else {
        return Err(Refusal::bad(flavour, "The tool named in `tool_choice` is not in `tools`"));
    };
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let schema = function.get("parameters").cloned().unwrap_or_default();
    let arguments = if schema.is_null() { "{}".to_owned() } else { text::minimal(&schema).to_string() };
    Ok(Some(Forced::Call { name, arguments }))
}

/// Returns the JSON that `response_format` or llama.cpp's `json_schema` demands.
fn json_format(fields: &Fields) -> Option<Forced> {
    let format = fields.get("response_format");
    let schema = match format.and_then(|format| format.get("type")).and_then(Value::as_str) {
        Some("json_schema") => format?.pointer("/json_schema/schema")?.clone(),
        Some("json_object") => {
            format?.get("schema").cloned().unwrap_or(Value::Object(serde_json::Map::new()))
        }
        _ => fields.get("json_schema")?.clone(),
    };
    Some(Forced::Json(text::minimal(&schema).to_string()))
}
