//! What the simulator does, read from its command line and environment.

use std::time::Duration;

use crate::args::{self, Env, Exit, Given, llama_flags};
use crate::faults::Faults;
use crate::flavour::{Flavour, Version};
use crate::refused;
use crate::text::TRAINED_CONTEXT;

/// The kind of requests that the simulated model serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Generate,
    Embed,
    Rerank,
}

/// How the simulated server runs.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch of the command line")]
pub struct Config {
    pub flavour: Flavour,
    pub version: Version,
    pub host: String,
    /// 0 lets the system choose; the address is printed at start.
    pub port: u16,
    /// The model as given: a path or a repository id.
    pub model: String,
    /// The names the model answers to; the first is canonical.
    pub names: Vec<String>,
    /// Accepted keys; empty means open.
    pub keys: Vec<String>,
    pub task: Task,
    /// Tokens one request may use, prompt and answer together.
    pub context: u32,
    /// Tokens one embedding input may have (llama.cpp's physical batch).
    pub batch: u32,
    /// Number of requests that are decoded at the same time; more requests wait.
    pub slots: u32,
    pub metrics: bool,
    pub slots_endpoint: bool,
    pub speculative: bool,
    /// `--enable-auto-tool-choice` (vLLM).
    pub auto_tools: bool,
    /// A tool parser is set (vLLM) or templates are on (llama.cpp).
    pub tool_parser: bool,
    pub prompt_details: bool,
    /// llama-server without a model.
    pub router: bool,
    /// How long a stop waits for answers in progress.
    pub drain: Duration,
    pub faults: Faults,
}

impl Config {
    /// Reads the arguments after `engine-sim`.
    ///
    /// # Errors
    /// The output and the exit code of a program that ends before it serves: `--help`, `--version`, a refused flag, or
    /// a model that the real engine would fail to load.
    pub fn parse(args: &[String], env: &Env) -> Result<Self, Exit> {
        let (faults, rest) = Faults::take(args, env)?;
        let (flavour, version, rest) = own_options(&rest, env)?;
        match flavour {
            Flavour::Vllm => Self::vllm(&rest, version, env, faults),
            Flavour::Llamacpp => Self::llama(&rest, version, env, faults),
        }
    }

    /// The version as its project writes it.
    pub fn version_text(&self) -> String {
        match self.flavour {
            Flavour::Vllm => self.version.to_string(),
            Flavour::Llamacpp => format!("b{}", self.version.0),
        }
    }

    /// Returns the fingerprint, which says in every answer that no real engine made it.
    pub(crate) fn fingerprint(&self) -> String {
        match self.flavour {
            Flavour::Vllm => format!("vllm-{}-simulator", self.version),
            Flavour::Llamacpp => format!("b{}-simulator", self.version.0),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    fn vllm(args: &[String], version: Version, env: &Env, faults: Faults) -> Result<Self, Exit> {
        let command = args::vllm::parse(args, version)?;
        let given = command.given;
        // Without a model, the real vLLM loads this one.
        let model = command.model.unwrap_or_else(|| "Qwen/Qwen3-0.6B".to_owned());
        refused::check_vllm(&model, &given, version, &faults)?;
        let mut names = match given.all("--served-model-name") {
            [] => vec![model.clone()],
            names => names.to_vec(),
        };
        // Each adapter is a model of its own to clients.
        let adapters =
            given.all("--lora-modules").iter().filter_map(|it| Some(it.split_once('=')?.0.to_owned()));
        names.extend(adapters);
        let keys = match given.all("--api-key") {
            [] => env.get("VLLM_API_KEY").filter(|key| !key.is_empty()).cloned().into_iter().collect(),
            keys => keys.to_vec(),
        };
        let pooling = given.one("--runner") == Some("pooling")
            || matches!(given.one("--convert"), Some("embed"))
            || matches!(given.one("--task"), Some("embed" | "embedding" | "score"));
        let length = given.one("--max-model-len").and_then(args::vllm::size);
        let context = length.map_or(TRAINED_CONTEXT, |length| length as u32);
        let drain = given.number("--shutdown-timeout").unwrap_or(0).max(1);
        Ok(Self {
            flavour: Flavour::Vllm,
            version,
            host: given.one("--host").unwrap_or("0.0.0.0").to_owned(),
            port: given.number("--port").unwrap_or(8000),
            names,
            model,
            keys,
            task: if pooling { Task::Embed } else { Task::Generate },
            context,
            batch: u32::MAX,
            slots: given.number("--max-num-seqs").unwrap_or(256),
            metrics: true,
            slots_endpoint: false,
            speculative: given.has("--speculative-config"),
            auto_tools: given.on("--enable-auto-tool-choice"),
            tool_parser: given.has("--tool-call-parser"),
            prompt_details: given.on("--enable-prompt-tokens-details"),
            router: false,
            drain: Duration::from_secs(drain),
            faults: faults.with_context(context),
        })
    }

    fn llama(args: &[String], version: Version, env: &Env, faults: Faults) -> Result<Self, Exit> {
        let given = args::llama::parse(args, version, env)?;
        let model = given.one("--model").or(given.one("--hf-repo")).map(str::to_owned);
        let router = model.is_none() && !given.has("--model-url");
        if router && version < llama_flags::ROUTER {
            return Err(Exit::failure(1, "error: --model is required\n"));
        }
        let model = model.unwrap_or_default();
        refused::check_llama(&model, &given, &faults, version)?;
        let names = match given.one("--alias") {
            Some(alias) => alias.split(',').map(str::to_owned).collect(),
            None => vec![model.clone()],
        };
        let keys = given.one("--api-key").or(env.get("LLAMA_API_KEY").map(String::as_str)).unwrap_or("");
        let task = match (given.on("--reranking"), given.on("--embedding"), given.one("--pooling")) {
            (true, ..) | (_, true, Some("rank")) => Task::Rerank,
            (_, true, _) => Task::Embed,
            _ => Task::Generate,
        };
        let (slots, context) = llama_slots(&given, version);
        let logical = given.number("--batch-size").unwrap_or(2048);
        let jinja = version >= llama_flags::MODERN_DEFAULTS && !given.has("--no-jinja");
        Ok(Self {
            flavour: Flavour::Llamacpp,
            version,
            host: given.one("--host").unwrap_or("0.0.0.0").to_owned(),
            port: given.number("--port").unwrap_or(8080),
            names,
            model,
            keys: keys.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect(),
            task,
            context,
            batch: given.number("--ubatch-size").unwrap_or(512).min(logical),
            slots,
            metrics: given.on("--metrics"),
            slots_endpoint: !given.has("--no-slots"),
            speculative: given.has("--model-draft")
                && (version < llama_flags::MODERN_DEFAULTS
                    || given.one("--spec-type").is_some_and(|kind| kind.starts_with("draft"))),
            auto_tools: true,
            tool_parser: jinja || given.on("--jinja"),
            prompt_details: true,
            router,
            drain: Duration::from_secs(1),
            faults: faults.with_context(llama_context(&given, version)),
        })
    }
}

/// Reads `--flavour` and `--engine-version`, which no engine has.
fn own_options(args: &[String], env: &Env) -> Result<(Flavour, Version, Vec<String>), Exit> {
    let refuse = |why: String| Exit::failure(2, format!("engine simulator: {why}\n"));
    let mut flavour = env.get("GANTRY_SIM_FLAVOUR").cloned();
    let mut version = env.get("GANTRY_SIM_ENGINE_VERSION").filter(|text| !text.is_empty()).cloned();
    let mut rest = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let target = match name {
            "--flavour" => &mut flavour,
            "--engine-version" => &mut version,
            _ => {
                rest.push(word.clone());
                continue;
            }
        };
        let value = inline.or_else(|| words.next().cloned());
        *target = Some(value.ok_or_else(|| refuse(format!("`{name}` needs a value")))?);
    }
    let flavour: Flavour = flavour.as_deref().unwrap_or("vllm").parse().map_err(refuse)?;
    let version = version.as_deref().unwrap_or(flavour.default_version()).parse().map_err(refuse)?;
    Ok((flavour, version, rest))
}

/// Returns the number of slots and the tokens that each may use: `-c` is the total unless the cache is unified.
fn llama_slots(given: &Given, version: Version) -> (u32, u32) {
    let modern = version >= llama_flags::MODERN_DEFAULTS;
    let total = llama_context(given, version);
    let pad = |tokens: u32| tokens.next_multiple_of(256);
    match given.number::<i32>("--parallel") {
        Some(n) if n > 0 => {
            let unified = given.on("--kv-unified");
            (n as u32, if unified { pad(total) } else { pad(total / n as u32) })
        }
        _ => (if modern { 4 } else { 1 }, pad(total)),
    }
}

/// Returns the tokens that all slots have together.
fn llama_context(given: &Given, version: Version) -> u32 {
    match given.number::<u32>("--ctx-size") {
        Some(0) => TRAINED_CONTEXT,
        Some(total) => total.min(TRAINED_CONTEXT),
        None if version >= llama_flags::MODERN_DEFAULTS => TRAINED_CONTEXT,
        None => 4096,
    }
}
