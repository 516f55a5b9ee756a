//! Reads a model from JSON and checks it against the field table. Every problem is reported, nothing is guessed, and
//! fields that are not in the table are not kept.

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::{
    EngineKind, Model, ModelConfig, Task,
    check::check,
    fields::{self, SetBy},
    identity::{self, MAX_NAME, MAX_TOKEN},
};
use crate::{ErrorCode, FieldProblem, Role, memory::CacheType, name};

/// The message about a name for which [`is_reserved`] is true.
pub const RESERVED: &str = "the served name `running` and names that end with `/constraints` are reserved";

/// Whether the name is reserved, because its path below `/v1/models` means something else.
pub fn is_reserved(served_name: &str) -> bool {
    served_name == "running" || served_name.ends_with("/constraints")
}

/// Fields that decide whose code a model with `trust_remote_code` runs.
const CODE_SOURCES: &[&str] = &["mode", "repo_id", "local_path", "tokenizer", "hub_config_path"];

/// A model as a client wants it: the identity columns and the settings, validated.
#[derive(Debug, Clone)]
pub struct ModelDraft {
    pub name: String,
    pub served_name: String,
    pub task: Task,
    pub engine: EngineKind,
    pub archived: bool,
    pub hub_token: Option<SecretString>,
    /// See [`Model::sealed_hub_token`]. It stays until a request sets another token or `null`.
    pub sealed_hub_token: Option<String>,
    pub config: ModelConfig,
}

impl ModelDraft {
    /// Reads the body of a create request.
    ///
    /// # Errors
    /// Returns every problem found.
    pub fn create(body: &Map<String, Value>, by: Role) -> Result<Self, Vec<FieldProblem>> {
        Self::merge(None, body, by)
    }

    /// Applies the body of a change request to a stored model; `null` unsets a field.
    ///
    /// # Errors
    /// Returns every problem found, with the fields as they would be after the change.
    pub fn change(model: &Model, body: &Map<String, Value>, by: Role) -> Result<Self, Vec<FieldProblem>> {
        Self::merge(Some(model), body, by)
    }

    fn merge(base: Option<&Model>, body: &Map<String, Value>, by: Role) -> Result<Self, Vec<FieldProblem>> {
        let mut read = Reader { problems: Vec::new(), by };
        let engine = read.engine(base, body);
        let task = read.task(base, body);
        let served_name = read.served_name(base, body);
        let name = match body.get("name") {
            None => base.map(|it| it.name.clone()).or_else(|| served_name.clone()),
            Some(value) => read.short_text("name", value),
        };
        let archived = match body.get("archived") {
            None => base.is_some_and(|it| it.archived),
            Some(Value::Bool(archived)) => *archived,
            Some(_) => read.problem("archived", "`archived` must be true or false").unwrap_or_default(),
        };
        let hub_token = match body.get("hub_token") {
            // Forms send an empty text for "unchanged".
            None => base.and_then(|it| it.hub_token.clone()),
            Some(Value::String(text)) if text.is_empty() => base.and_then(|it| it.hub_token.clone()),
            Some(Value::Null) => None,
            Some(Value::String(text))
                if text.len() <= MAX_TOKEN && text.bytes().all(|it| it.is_ascii_graphic()) =>
            {
                Some(text.clone().into())
            }
            Some(_) => {
                let message =
                    format!("`hub_token` must be a text of at most {MAX_TOKEN} printable characters");
                read.problem("hub_token", message)
            }
        };
        let config = engine.map(|engine| read.config(base, body, engine));
        if let (Some(config), Some(engine)) = (&config, engine) {
            read.cross_field(config, engine);
            if task != Some(Task::Embed) && config.text("pooling") == Some("rank") {
                read.problem::<()>(
                    "pooling",
                    "`pooling` `rank` makes a reranker: it needs the `task` `embed`",
                );
            }
            if let Some(name) = &served_name {
                read.name_for_engine(name, engine);
            }
        }
        match (name, served_name, task, engine, config) {
            (Some(name), Some(served_name), Some(task), Some(engine), Some(config))
                if read.problems.is_empty() =>
            {
                // Whether the body leaves the token unchanged.
                let unsaid = body.get("hub_token").is_none_or(|it| it.as_str() == Some(""));
                let sealed_hub_token = base.filter(|_| unsaid).and_then(|it| it.sealed_hub_token.clone());
                Ok(Self { name, served_name, task, engine, archived, hub_token, sealed_hub_token, config })
            }
            _ => Err(FieldProblem::bounded(read.problems)),
        }
    }
}

/// Whether two values are equal. `1` and `1.0` are the same number, and clients can't always choose which of them they
/// send.
fn same(a: &Value, b: &Value) -> bool {
    a == b || ((a.is_f64() || b.is_f64()) && a.is_number() && a.as_f64() == b.as_f64())
}

struct Reader {
    problems: Vec<FieldProblem>,
    by: Role,
}

impl Reader {
    fn problem<T>(&mut self, param: &str, message: impl Into<String>) -> Option<T> {
        self.problems.push(FieldProblem::new(param, message));
        None
    }

    /// Reports a problem that only a caller with another role could avoid.
    fn for_owners(&mut self, param: &str, message: impl Into<String>) {
        self.problems.push(FieldProblem { code: ErrorCode::Forbidden, ..FieldProblem::new(param, message) });
    }

    fn short_text(&mut self, param: &str, value: &Value) -> Option<String> {
        match value.as_str() {
            Some(text) if name::is_name(text, MAX_NAME) => Some(text.to_owned()),
            _ => {
                let rule = name::RULE;
                self.problem(param, format!("`{param}` must be a text of 1 to {MAX_NAME} characters, {rule}"))
            }
        }
    }

    fn engine(&mut self, base: Option<&Model>, body: &Map<String, Value>) -> Option<EngineKind> {
        let given = match body.get("engine_type") {
            None if base.is_none() => {
                return self.problem("engine_type", "`engine_type` is required: vllm or llamacpp");
            }
            None => return base.map(|it| it.engine),
            Some(value) => value.as_str().and_then(EngineKind::parse),
        };
        match (given, base) {
            (None, _) => self.problem("engine_type", "`engine_type` must be vllm or llamacpp"),
            // The container's name and every setting depend on the engine.
            (Some(engine), Some(model)) if engine != model.engine => {
                self.problem("engine_type", "`engine_type` can't be changed: create another model")
            }
            (engine, _) => engine,
        }
    }

    fn task(&mut self, base: Option<&Model>, body: &Map<String, Value>) -> Option<Task> {
        match body.get("task") {
            None => Some(base.map_or(Task::Generate, |it| it.task)),
            Some(value) => match value.as_str().and_then(Task::parse) {
                Some(task) => Some(task),
                None => self.problem("task", "`task` must be generate or embed"),
            },
        }
    }

    fn served_name(&mut self, base: Option<&Model>, body: &Map<String, Value>) -> Option<String> {
        let (param, value) = match (body.get("served_name"), body.get("served_model_name")) {
            (Some(_), Some(_)) => {
                return self.problem(
                    "served_model_name",
                    "`served_model_name` is another word for `served_name`: send one",
                );
            }
            (Some(value), None) => ("served_name", value),
            (None, Some(value)) => ("served_model_name", value),
            (None, None) => {
                return match base {
                    Some(model) => Some(model.served_name.clone()),
                    None => self.problem("served_name", "`served_name` is required"),
                };
            }
        };
        let name = self.short_text(param, value)?;
        if is_reserved(&name) {
            return self.problem(param, RESERVED);
        }
        Some(name)
    }

    fn config(&mut self, base: Option<&Model>, body: &Map<String, Value>, engine: EngineKind) -> ModelConfig {
        let mut values = base.map(|it| it.config.0.clone()).unwrap_or_default();
        for (name, value) in body.iter().filter(|(name, _)| !identity::is_column(name)) {
            let Some(field) = fields::find(name, engine) else {
                let hint = fields::meant(name, engine).map(|it| format!("; did you mean `{it}`?"));
                let hint = hint.unwrap_or_default();
                self.problems.push(FieldProblem::unknown(name, &hint));
                continue;
            };
            if !field.applies_to(engine) {
                self.problem::<()>(name, format!("`{name}` is not a setting of the {engine} engine"));
                continue;
            }
            let shown = match (values.get(name), base) {
                (None, Some(base)) => field.default_for(base.task),
                (known, _) => known.cloned(),
            };
            if same(shown.as_ref().unwrap_or(&Value::Null), value)
                || (value.is_null() && !values.contains_key(name))
            {
                // Forms send all fields back unchanged, and rules may have become stricter since this value was saved.
                continue;
            }
            if field.set_by == SetBy::Owner && self.by != Role::Owner {
                self.for_owners(name, format!("only an owner may set `{name}`"));
            } else if value.is_null() {
                values.shift_remove(name);
            } else if let Err((code, message)) = check(field, engine, value) {
                self.problems.push(FieldProblem { code, ..FieldProblem::new(name, message) });
            } else {
                values.insert(name.clone(), value.clone());
            }
        }
        let values = ModelConfig(values);
        if let Some(base) = base {
            self.trusted_code(&base.config, &values);
        }
        values
    }

    /// Reports changes of the model behind `trust_remote_code`. An owner who turned it on trusts this model's code, not
    /// the code of another model that somebody else puts in its place.
    fn trusted_code(&mut self, before: &ModelConfig, after: &ModelConfig) {
        if self.by == Role::Owner || !after.trusts_code() {
            return;
        }
        for name in CODE_SOURCES.iter().filter(|it| before.get(it) != after.get(it)) {
            let message = format!("only an owner may change `{name}` while `trust_remote_code` is on");
            self.for_owners(name, message);
        }
    }

    /// Refuses served names that the engines' own parsers would read as something else.
    fn name_for_engine(&mut self, name: &str, engine: EngineKind) {
        if name.starts_with('-') {
            self.problem::<()>(
                "served_name",
                "`served_name` must not begin with `-`: engines take it for an option",
            );
        }
        if engine == EngineKind::Llamacpp && name.contains(',') {
            self.problem::<()>(
                "served_name",
                "`served_name` must not contain `,`: llama.cpp takes it for two names",
            );
        }
    }

    /// Refuses combinations of values that vLLM refuses.
    fn vllm(&mut self, config: &ModelConfig) {
        let int = |name| config.effective_int(name, EngineKind::Vllm);
        if let (Some(tokens), Some(seqs)) = (int("max_num_batched_tokens"), int("max_num_seqs"))
            && tokens < seqs
        {
            self.problem::<()>(
                "max_num_batched_tokens",
                format!("`max_num_batched_tokens` ({tokens}) must be at least `max_num_seqs` ({seqs})"),
            );
        }
        if let (Some(tokens), Some(len)) = (int("max_num_batched_tokens"), int("max_model_len"))
            && config.bool("enable_chunked_prefill") == Some(false)
            && tokens < len
        {
            self.problem::<()>(
                "max_num_batched_tokens",
                format!(
                    "without `enable_chunked_prefill`, `max_num_batched_tokens` ({tokens}) must be at least \
                     `max_model_len` ({len})"
                ),
            );
        }
        if config.text("chat_template").is_some_and(|it| !it.contains(['{', '}', '\n'])) {
            self.problem::<()>(
                "chat_template",
                "`chat_template` must be a Jinja template: vLLM has none built in",
            );
        }
    }

    /// Refuses values and combinations that llama-server refuses.
    fn llamacpp(&mut self, config: &ModelConfig) {
        if let Some(path) = config.text("local_path")
            && !path.to_ascii_lowercase().ends_with(".gguf")
        {
            self.problem::<()>("local_path", "the llamacpp engine needs a `.gguf` file");
        }
        if let Some(placement) = config.text("override_tensor")
            && !placement.split(',').all(|it| {
                it.split_once('=').is_some_and(|(pattern, device)| !pattern.is_empty() && !device.is_empty())
            })
        {
            self.problem::<()>(
                "override_tensor",
                "`override_tensor` must be `pattern=device`, or several of them with commas between",
            );
        }
        if config.bool("jinja") == Some(false)
            && (config.get("chat_template_file").is_some()
                || config.text("chat_template").is_some_and(|it| it.contains('{')))
        {
            self.problem::<()>("jinja", "a Jinja template needs `jinja`");
        }
        // llama.cpp `src/llama-context.cpp`: "quantized V cache requires flash_attn to be enabled".
        let quantized = |it: &str| CacheType::parse(it).is_some_and(CacheType::is_quantized);
        if config.text("flash_attn") == Some("off")
            && let Some(kind) = config.text("cache_type_v").filter(|it| quantized(it))
        {
            self.problem::<()>(
                "cache_type_v",
                format!("`cache_type_v` {kind} is quantised, which needs `flash_attn` on or auto"),
            );
        }
    }

    fn cross_field(&mut self, config: &ModelConfig, engine: EngineKind) {
        // A value that is present and wrong was already reported.
        let said = |name| self.problems.iter().any(|it| it.param == name);
        match (config.is_online(), config.text("repo_id"), config.text("local_path")) {
            (true, None, _) if !said("repo_id") => {
                self.problem::<()>("repo_id", "online mode needs a `repo_id`");
            }
            (false, _, None) if !said("local_path") => {
                self.problem::<()>(
                    "local_path",
                    "a model needs a `local_path`, or a `repo_id` in online mode",
                );
            }
            _ => {}
        }
        if config.get("chat_template").is_some() && config.get("chat_template_file").is_some() {
            self.problem::<()>(
                "chat_template",
                "`chat_template` and `chat_template_file` exclude each other: unset one of them",
            );
        }
        match engine {
            EngineKind::Vllm => self.vllm(config),
            EngineKind::Llamacpp => self.llamacpp(config),
        }
        if let Some(split) = config.text("tensor_split") {
            let parts: Result<Vec<f64>, _> = split.split(',').map(|it| it.trim().parse::<f64>()).collect();
            // llama-server supports at most 16 devices, and reads numbers in single precision.
            if !parts.is_ok_and(|parts| {
                parts.len() < 16
                    && parts.iter().all(|it| *it == 0.0 || (1e-6..=1e6).contains(it))
                    && parts.iter().sum::<f64>() > 0.0
            }) {
                self.problem::<()>(
                    "tensor_split",
                    "`tensor_split` must be at most 15 numbers such as `0.5,0.5`",
                );
            }
        }
        if let Some(sizes) = config.text("cuda_graph_sizes")
            && !sizes.split(',').all(|it| it.trim().parse::<u32>().is_ok_and(|it| it > 0))
        {
            self.problem::<()>("cuda_graph_sizes", "`cuda_graph_sizes` must be numbers such as `1,2,4,8`");
        }
        if config.bool("enable_auto_tool_choice") == Some(true) && config.get("tool_call_parser").is_none() {
            self.problem::<()>("tool_call_parser", "`enable_auto_tool_choice` needs a `tool_call_parser`");
        }
    }
}

#[cfg(test)]
mod tests;
