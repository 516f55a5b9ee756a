//! Inference through the gateway into containers: answers, metering, rules, and what an engine's troubles look like
//! from outside.

mod answers;
mod disconnects;
mod engine_troubles;
mod rules;

use std::time::Duration;

use gantry_testkit::{Gateway, Options};
use serde_json::{Value, json};

const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");
const CHAT: &str = "/v1/chat/completions";
/// Longest time for what happens by itself, on a busy machine, too. What the specification promises is measured and
/// printed, not asserted.
const SOON: Duration = gantry_testkit::PATIENCE;

async fn gateway() -> Gateway {
    Gateway::start(GANTRY, Options::containers()).await
}

/// A chat that streams `max_tokens` tokens.
fn streamed(model: &str, max_tokens: u32) -> Value {
    let messages = json!([{ "role": "user", "content": "Tell me something" }]);
    json!({ "model": model, "stream": true, "max_tokens": max_tokens, "messages": messages })
}

/// The text in the chunks of a streamed chat.
fn text(events: &[String]) -> String {
    let chunks = events.iter().filter_map(|it| serde_json::from_str::<Value>(it).ok());
    chunks.filter_map(|it| it["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}
