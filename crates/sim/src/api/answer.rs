//! Plans the whole answer to a checked request, before any of it is generated.

use serde_json::Value;

use super::request::Fields;
use crate::config::{Config, Task};
use crate::engine::{Engine, Finish, Timings, unix_now};
use crate::flavour::{Flavour, Version};
use crate::reply::Refusal;
use crate::text;

/// Length of an answer when the request sets none.
const DEFAULT_TOKENS: u32 = 64;
/// Longest text per token of a vLLM prompt; above it the prompt is refused without counting.
const CHARS_PER_TOKEN: usize = 13;

/// A request to the model, with the same fields for all endpoints.
#[derive(Debug, Default)]
pub(crate) struct Ask {
    pub prompts: Vec<String>,
    /// Number of characters of the prompt as vLLM counts them, template included.
    pub n_chars: usize,
    pub prompt_tokens: u32,
    pub max_tokens: Option<u32>,
    /// The answer goes on until it is cut off.
    pub ignore_eos: bool,
    pub n: usize,
    pub stops: Vec<String>,
    pub forced: Option<Forced>,
    pub stream: bool,
    pub usage: StreamUsage,
    pub logprobs: Option<usize>,
    pub echo: bool,
}

/// Where a stream reports its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StreamUsage {
    #[default]
    Nowhere,
    /// In a separate chunk at the end.
    Last,
    /// In a separate chunk at the end and in every chunk (vLLM).
    Every,
}

/// An answer whose content the request determines.
#[derive(Debug, Clone)]
pub(crate) enum Forced {
    Json(String),
    Call { name: String, arguments: String },
}

/// One planned answer.
#[derive(Debug)]
pub(crate) struct Choice {
    pub pieces: Vec<String>,
    pub finish: Finish,
    pub stop_reason: Option<String>,
    /// Identity and function of a tool call; `pieces` are its arguments.
    pub call: Option<(String, String)>,
    /// The prompt it answers.
    pub prompt: String,
}

impl Choice {
    pub(crate) fn text(&self) -> String {
        self.pieces.concat()
    }
}

/// Everything that will be sent, with the values that the shapes need for it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub id: String,
    pub created: u64,
    pub model: String,
    pub fingerprint: String,
    pub prompt_tokens: u32,
    pub max_tokens: Option<u32>,
    pub prompt_details: bool,
    pub usage: StreamUsage,
    pub logprobs: Option<usize>,
    pub echo: bool,
    pub choices: Vec<Choice>,
    pub error: Value,
}

/// One token of one choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub choice: usize,
    pub index: usize,
    pub last: bool,
    /// Tokens of the whole answer so far, this one included.
    pub emitted: u32,
}

/// The cost of a finished answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    pub emitted: u32,
    pub timings: Timings,
}

/// The form of an endpoint's answers.
pub(crate) trait Shape: Send {
    fn plan(&self) -> &Plan;
    /// The answer in one piece.
    fn whole(&self, tally: &Tally) -> Value;
    fn begin(&mut self) -> Vec<String>;
    fn piece(&mut self, piece: Piece) -> Vec<String>;
    fn end(&mut self, tally: &Tally) -> Vec<String>;
    /// Events for an error in mid-stream.
    fn error(&self) -> Vec<String> {
        vec![format!("data: {}\n\n", self.plan().error)]
    }
}

/// Returns a 404 for a name that vLLM does not serve; llama-server never checks the name.
pub(crate) fn check_model(config: &Config, fields: &Fields) -> Result<(), Refusal> {
    let Some(name) = fields.text("model").filter(|_| config.flavour == Flavour::Vllm) else { return Ok(()) };
    if config.names.iter().any(|known| known == name) {
        return Ok(());
    }
    let aliases = match config.version {
        version if version >= Version(0, 32, 0) => format!(" Valid aliases: {}.", config.names.join(", ")),
        _ => String::new(),
    };
    let text = format!("The model `{name}` does not exist.{aliases}");
    Err(Refusal::new(404, "NotFoundError", text).param("model"))
}

/// Reads the fields that all generating endpoints share; `limits` are the names of the token limit.
pub(crate) fn read(config: &Config, fields: &Fields, limits: &[&str], stops: &str) -> Result<Ask, Refusal> {
    let flavour = config.flavour;
    let mut ask = Ask { n: 1, ..Ask::default() };
    let temperature = fields.number("temperature")?;
    fields.number("top_p")?;
    for name in limits {
        let Some(limit) = fields.integer(name)? else { continue };
        match flavour {
            Flavour::Vllm if limit > i64::from(config.context) => {
                let text = format!(
                    "{name}={limit} cannot be greater than max_model_len={}. Please request fewer output tokens. \
                     (parameter={name}, value={limit})",
                    config.context
                );
                return Err(Refusal::bad(flavour, text).param(name));
            }
            Flavour::Vllm if limit < 1 => {
                let text =
                    format!("{name} must be at least 1, got {limit}. (parameter={name}, value={limit})");
                return Err(Refusal::bad(flavour, text).param(name));
            }
            Flavour::Llamacpp if !(-1..=i64::from(i32::MAX)).contains(&limit) => {
                let text = format!(
                    "Field '{name}': Value must be between -1 <= value <= 2147483647, but got {limit}"
                );
                return Err(Refusal::bad(flavour, text));
            }
            _ => {}
        }
        // -1 means no limit to llama-server.
        ask.max_tokens = ask.max_tokens.or(u32::try_from(limit).ok());
    }
    if let Some(value) = temperature.filter(|value| *value < 0.0 && flavour == Flavour::Vllm) {
        let text = format!(
            "temperature must be non-negative, got {value:?}. (parameter=temperature, value={value:?})"
        );
        return Err(Refusal::bad(flavour, text).param("temperature"));
    }
    if let Some(n) = fields.integer("n")? {
        if n < 1 {
            return Err(Refusal::bad(flavour, format!("n must be at least 1, got {n}.")));
        }
        ask.n = n.min(128) as usize;
    }
    ask.ignore_eos = fields.flag("ignore_eos")?;
    ask.stops = fields.stops(stops);
    ask.stream = fields.flag("stream")?;
    let option = |name: &str| {
        fields.get("stream_options").and_then(|options| options.get(name)) == Some(&Value::Bool(true))
    };
    ask.usage = match (option("include_usage"), option("continuous_usage_stats")) {
        (false, _) => StreamUsage::Nowhere,
        (true, false) => StreamUsage::Last,
        (true, true) => StreamUsage::Every,
    };
    Ok(ask)
}

/// Refuses a request that does not fit, then plans the answer.
pub(crate) fn plan(engine: &Engine, ask: &Ask, id_prefix: &str) -> Result<Plan, Refusal> {
    let config = &engine.config;
    check_fit(config, ask)?;
    let room = config.context.saturating_sub(ask.prompt_tokens).max(1);
    let mut choices = Vec::new();
    for prompt in &ask.prompts {
        for _ in 0..ask.n {
            choices.push(choice(ask, prompt, choices.len(), room));
        }
    }
    let error = match config.flavour {
        Flavour::Vllm => Refusal::new(500, "InternalServerError", "simulated error in mid-stream"),
        Flavour::Llamacpp => Refusal::new(500, "server_error", "simulated error in mid-stream"),
    };
    Ok(Plan {
        id: new_id(id_prefix),
        created: unix_now(),
        model: config.name().to_owned(),
        fingerprint: config.fingerprint(),
        prompt_tokens: ask.prompt_tokens,
        max_tokens: ask.max_tokens,
        prompt_details: config.prompt_details,
        usage: ask.usage,
        logprobs: ask.logprobs,
        echo: ask.echo,
        choices,
        error: error.body(config, false),
    })
}

pub(crate) fn new_id(prefix: &str) -> String {
    format!("{prefix}{:016x}", rand::random::<u64>())
}

fn choice(ask: &Ask, prompt: &str, index: usize, room: u32) -> Choice {
    let limit = ask.max_tokens.unwrap_or(DEFAULT_TOKENS).min(room).max(1);
    let mut choice = Choice {
        pieces: Vec::new(),
        finish: Finish::Stop,
        stop_reason: None,
        call: None,
        prompt: prompt.to_owned(),
    };
    if let Some(forced) = &ask.forced {
        let (text, done) = match forced {
            Forced::Json(text) => (text, Finish::Stop),
            Forced::Call { name, arguments } => {
                choice.call = Some((new_id("chatcmpl-tool-"), name.clone()));
                (arguments, Finish::ToolCalls)
            }
        };
        choice.pieces = text::split(text);
        choice.finish = done;
        if choice.pieces.len() > limit as usize {
            choice.pieces.truncate(limit as usize);
            choice.finish = Finish::Length;
        }
    } else {
        let own = text::own_length(prompt, index);
        let ends = !ask.ignore_eos && own < limit;
        choice.pieces = text::generate(prompt, index, if ends { own } else { limit });
        choice.stop_reason = text::cut(&mut choice.pieces, &ask.stops);
        let ran_out = !ends && (ask.max_tokens.is_some() || limit < DEFAULT_TOKENS);
        choice.finish = if choice.stop_reason.is_none() && ran_out { Finish::Length } else { Finish::Stop };
    }
    // The stop word or the end mark is a token too, even if nothing came before it.
    if choice.pieces.is_empty() {
        choice.pieces.push(String::new());
    }
    choice
}

fn check_fit(config: &Config, ask: &Ask) -> Result<(), Refusal> {
    let context = config.context;
    match config.flavour {
        Flavour::Vllm => check_length(context, ask.n_chars, CHARS_PER_TOKEN, ask.prompt_tokens),
        Flavour::Llamacpp if config.task != Task::Generate => {
            let text = "the current context does not support logits computation. skipping";
            Err(Refusal::new(500, "server_error", text))
        }
        Flavour::Llamacpp if ask.prompt_tokens >= context => {
            let n = ask.prompt_tokens;
            let text = format!(
                "request ({n} tokens) exceeds the available context size ({context} tokens), try increasing it"
            );
            let mut refusal = Refusal::new(400, "exceed_context_size_error", text);
            refusal.extra = vec![("n_prompt_tokens", n), ("n_ctx", context)];
            Err(refusal)
        }
        Flavour::Llamacpp => Ok(()),
    }
}

/// Refuses a long prompt as vLLM does: first by characters, which is cheap, then by tokens.
pub(crate) fn check_length(
    context: u32,
    n_chars: usize,
    per_token: usize,
    tokens: u32,
) -> Result<(), Refusal> {
    let most = context as usize * per_token;
    if n_chars > most {
        let text = format!(
            "This model's maximum context length is {context} tokens. However, your prompt contains {n_chars} \
             characters (more than {most} characters, which is the upper bound for {context} input tokens). Please \
             reduce the length of the input prompt. (parameter=input_text, value={n_chars})"
        );
        return Err(Refusal::bad(Flavour::Vllm, text).param("input_text"));
    }
    if tokens >= context {
        let text = format!(
            "This model's maximum context length is {context} tokens. However, you requested 0 output tokens and your \
             prompt contains at least {tokens} input tokens, for a total of at least {tokens} tokens. Please reduce \
             the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, \
             value={tokens})"
        );
        return Err(Refusal::bad(Flavour::Vllm, text).param("input_tokens"));
    }
    Ok(())
}
